import type { FastifyInstance } from 'fastify'
import { UsageError } from '../base/index.js'
import { dashboard } from '../dashboard/index.js'
import { Holdfast } from '../index.js'
import { healthHandler } from '../telemetry/index.js'
import { type HoldfastPluginOptions, readSettings } from './options.js'

declare module 'fastify' {
  interface FastifyInstance {
    /** The instance that `holdfastPlugin` has opened. */
    holdfast: Holdfast
  }
}

/**
 * Fastify plugin that opens a Holdfast instance as `app.holdfast`. `app.close()` drains the instance while the current
 * requests finish, and closes the instance after the last request. With options, the plugin also serves the dashboard and
 * health checks.
 *
 * @example
 * import Fastify from 'fastify'
 * import { holdfastPlugin } from 'holdfast/fastify'
 *
 * const app = Fastify()
 * await app.register(holdfastPlugin, { url: process.env.DATABASE_URL, namespace: 'shop', health: '/health' })
 * app.post('/orders', async (request) => app.holdfast.jobs.enqueue(sendInvoice, { order: 7 }))
 */
export async function holdfastPlugin(fastify: FastifyInstance, options: HoldfastPluginOptions): Promise<void> {
  if (fastify.hasDecorator('holdfast')) {
    throw new UsageError(
      'Expected one registration of holdfastPlugin, but this Fastify instance already has `holdfast`',
      'Register the plugin once, before the plugins and routes that use `app.holdfast`.',
    )
  }
  const settings = readSettings(options)
  const board = settings.dashboard && dashboard(settings.dashboard.options)
  const opening = Holdfast.open(settings.instance)
  // Adds this hook before the instance is open, because Fastify gives up on a plugin that takes longer than
  // `pluginTimeout`.
  fastify.addHook('onClose', async () => {
    const opened = await opening.catch(() => undefined)
    await opened?.close()
  })
  const holdfast = await opening
  fastify.decorate('holdfast', holdfast)
  if (board) fastify.register(board.fastify, { prefix: settings.dashboard!.prefix })
  if (settings.health) {
    const health = healthHandler(holdfast)
    fastify.get(`${settings.health}/:probe`, (request, reply) => {
      reply.hijack()
      return health.node(request.raw, reply.raw)
    })
  }
  fastify.addHook('preClose', async () => {
    await holdfast.drain({ within: settings.drainWithin })
    // Connections of open dashboard pages would keep the server from closing.
    await board?.close()
  })
}

// Because of `skip-override`, Fastify applies the plugin to the instance that registers it, and not only to a child instance.
Object.assign(holdfastPlugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'holdfast',
  [Symbol.for('plugin-meta')]: { name: 'holdfast', fastify: '5.x' },
})
