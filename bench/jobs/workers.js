// Worker processes, as whoever measures sees them.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('./worker.js', import.meta.url))

/** Starts so many processes, each of which works when `begin` is called. */
export async function startWorkers(name, at, { count = 1, handlerMs = 0, concurrency, hasLanes } = {}) {
  const words = JSON.stringify({ name, at, handlerMs, concurrency, hasLanes })
  const children = Array.from({ length: count }, () => fork(program, [words]))
  const told = children.map(() => ({ count: 0, cpuMs: 0 }))
  for (const [at, child] of children.entries()) {
    await once(child, 'message')
    child.on('message', (news) => {
      told[at] = news
    })
  }
  const sum = (what) => told.reduce((sum, one) => sum + one[what], 0)
  return {
    begin() {
      for (const child of children) child.send('begin')
    },
    done: () => sum('count'),
    cpuMs: () => sum('cpuMs'),
    async stop() {
      for (const child of children) child.kill('SIGKILL')
      await Promise.all(children.map((child) => child.signalCode ?? child.exitCode ?? once(child, 'exit')))
    },
  }
}
