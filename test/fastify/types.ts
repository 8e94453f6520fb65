// Types of the plugin. The compiler checks this file. No test runs it.
import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import type { Holdfast } from 'holdfast'
import { holdfastPlugin } from 'holdfast/fastify'

const url = 'postgres://localhost/shop'
const key = readFileSync('key.pem')

const app = Fastify({ logger: true })
await app.register(holdfastPlugin, { url, drainWithin: '20s', health: '/health', dashboard: { prefix: '/admin' } })
export const decorated: Holdfast = app.holdfast

await Fastify({ https: { key } }).register(holdfastPlugin, { url })
await Fastify({ http2: true }).register(holdfastPlugin, { url })
await Fastify({ http2: true, https: { key } }).register(async (scope) => {
  await scope.register(holdfastPlugin, { url })
})

// @ts-expect-error: the dashboard has a path
app.register(holdfastPlugin, { url, dashboard: {} })
// @ts-expect-error: an unknown option
app.register(holdfastPlugin, { url, workers: true })
// @ts-expect-error: no duration
app.register(holdfastPlugin, { url, drainWithin: '20 seconds' })
