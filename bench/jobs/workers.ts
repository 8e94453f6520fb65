// Worker processes, as whoever measures sees them.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Place } from './contestants.ts'

const program = fileURLToPath(new URL('./worker.ts', import.meta.url))

export interface Crew {
  count?: number
  handlerMs?: number
  concurrency?: number | undefined
  hasLanes?: boolean
}

export interface Workers {
  begin(): void
  done(): number
  cpuMs(): number
  stop(): Promise<void>
}

/** Starts so many processes, each of which works when `begin` is called. */
export async function startWorkers(
  name: string,
  at: Place,
  { count = 1, handlerMs = 0, concurrency, hasLanes }: Crew = {},
): Promise<Workers> {
  const words = JSON.stringify({ name, at, handlerMs, concurrency, hasLanes })
  const children = Array.from({ length: count }, () => fork(program, [words]))
  const told = children.map(() => ({ count: 0, cpuMs: 0 }))
  for (const [at, child] of children.entries()) {
    await once(child, 'message')
    child.on('message', (news: { count: number; cpuMs: number }) => {
      told[at] = news
    })
  }
  const sum = (what: 'count' | 'cpuMs') => told.reduce((sum, one) => sum + one[what], 0)
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
