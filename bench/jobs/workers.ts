// Starts worker processes and collects their reports.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Addresses } from './contestants.ts'

const program = fileURLToPath(new URL('./worker.ts', import.meta.url))

export interface WorkerOptions {
  count?: number
  handlerMs?: number
  concurrency?: number | undefined
  hasLanes?: boolean
}

export interface Workers {
  begin(): void
  done(): number
  cpuMs(): number
  /** Returns the time from enqueue to start of the jobs that have started since the last call. */
  takeWaits(): number[]
  stop(): Promise<void>
}

/** Starts `count` processes. Their workers start when `begin` is called. */
export async function startWorkers(
  name: string,
  addresses: Addresses,
  { count = 1, handlerMs = 0, concurrency, hasLanes }: WorkerOptions = {},
): Promise<Workers> {
  const argument = JSON.stringify({ name, addresses, handlerMs, concurrency, hasLanes })
  const children = Array.from({ length: count }, () => fork(program, [argument]))
  const reports = children.map(() => ({ count: 0, cpuMs: 0 }))
  let waits: number[] = []
  for (const [at, child] of children.entries()) {
    await once(child, 'message')
    child.on('message', ({ waitsMs, ...report }: { count: number; cpuMs: number; waitsMs: number[] }) => {
      reports[at] = report
      waits.push(...waitsMs)
    })
  }
  const sum = (what: 'count' | 'cpuMs') => reports.reduce((sum, report) => sum + report[what], 0)
  return {
    begin() {
      for (const child of children) child.send('begin')
    },
    done: () => sum('count'),
    cpuMs: () => sum('cpuMs'),
    takeWaits() {
      const taken = waits
      waits = []
      return taken
    },
    async stop() {
      for (const child of children) child.kill('SIGKILL')
      await Promise.all(children.map((child) => child.signalCode ?? child.exitCode ?? once(child, 'exit')))
    },
  }
}
