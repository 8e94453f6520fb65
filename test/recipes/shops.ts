// Runs the recipes like their frameworks do. Recipes that are Node.js programs run as processes. This process loads the recipes that a framework
// compiles.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { onTestFinished, vi } from 'vitest'
import { startProgram } from '../cli/program.js'
import { typescript } from '../setup/typescript.js'

export interface Shop {
  ask(path: string, init?: RequestInit): Promise<Response>
  /** Stops the shop like SIGTERM does. Resolves when the shop has stopped. */
  stop(): Promise<void>
}

export const operator = 'a-secret-of-the-operator'

const recipes = new URL('../../examples/recipes/', import.meta.url)

export const tables = readFileSync(new URL('shop.sql', recipes), 'utf8')

/** Starts a shop with the environment that the recipes read. */
export type Open = (env: { DATABASE_URL: string; OPERATOR_TOKEN: string; PORT: string }) => Promise<Shop>

export const shops: Record<string, Open> = {
  Express: asProcess('express.ts'),
  Fastify: asProcess('fastify.ts'),
  Hono: asProcess('hono.ts'),

  async NestJS(env) {
    stub(env)
    const { NestFactory } = await import('@nestjs/core')
    const { AppModule } = await load('nestjs/app.module.ts')
    const app = await NestFactory.create(AppModule, { logger: false })
    await app.listen(0, '127.0.0.1')
    const address = await app.getUrl()
    // The shutdown hooks of NestJS call app.close when they receive the signal.
    return { ask: (path, init) => fetch(address + path, init), stop: atMostOnce(() => app.close()) }
  },

  async 'Next.js'(env) {
    stub({ ...env, NEXT_RUNTIME: 'nodejs' })
    const before = process.listeners('SIGTERM')
    const { register } = await load('next/instrumentation.ts')
    await register()
    const signalled = process.listeners('SIGTERM').filter((listener) => !before.includes(listener))
    for (const listener of signalled) process.off('SIGTERM', listener)
    if (signalled.length !== 1) throw new Error(`Expected one handler of SIGTERM, got ${signalled.length}`)
    const { shutDown } = await load('next/lib/shop.ts')
    const find = async (path: string) => {
      const [, first, second] = path.split('/')
      if (first === 'admin') return { route: await load('next/app/admin/holdfast/[[...path]]/route.ts'), params: {} }
      if (first === 'reports') return { route: await load('next/app/reports/[day]/route.ts'), params: { day: second } }
      if (first === 'health') return { route: await load('next/app/health/[probe]/route.ts'), params: {} }
      return { route: await load(`next/app${path}/route.ts`), params: {} }
    }
    return {
      async ask(path, init) {
        const { route, params } = await find(path)
        const request = new Request(`http://localhost${path}`, init)
        return route[request.method](request, { params: Promise.resolve(params) })
      },
      stop: atMostOnce(shutDown),
    }
  },
}

function stub(env: Record<string, string>): void {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  onTestFinished(() => void vi.unstubAllEnvs())
}

/** Wraps `stop` so that it runs only once. Also runs it at the end of the test, because the test can fail before it calls `stop`. */
function atMostOnce(stop: () => Promise<void>): () => Promise<void> {
  let stopping: Promise<void> | undefined
  const once = () => {
    stopping ??= stop()
    return stopping
  }
  onTestFinished(once)
  return once
}

/** Loads a recipe. The compiler does not see the import, because recipes have their own compiler settings. */
export function load(path: string) {
  return import(new URL(path, recipes).href)
}

function asProcess(file: string): Open {
  return async (env) => {
    const args = [...typescript, fileURLToPath(new URL(file, recipes))]
    const running = startProgram(process.execPath, args, env, undefined, 60_000)
    const [, port] = await running.says(/^listening on (\d+)$/m)
    return {
      ask: (path, init) => fetch(`http://localhost:${port}${path}`, init),
      async stop() {
        running.process.kill('SIGTERM')
        const { status, stderr } = await running.ended
        if (status !== 0) throw new Error(`The shop ended with ${status}. Its stderr is:\n${stderr}`)
      },
    }
  }
}
