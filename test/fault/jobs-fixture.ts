import type { ChildProcess } from 'node:child_process'
import { Child } from './children.js'
import { expiryMs } from './fixture.js'

export interface WorkerProcess {
  readonly child: ChildProcess
  readonly instanceId: string
  /** Resolves with the attempt when it starts to hold the job. */
  holds(id: number): Promise<number>
  kill(): Promise<void>
  close(): Promise<void>
}

interface Told {
  open?: string
  started?: number
  attempt?: number
}

export async function startWorker(
  url: string,
  options: {
    queues: string[]
    anchor?: 'required' | 'none'
    concurrency?: number
    expiryMs?: number
  },
): Promise<WorkerProcess> {
  const given = { url, expiryMs, anchor: 'required', concurrency: 10, ...options }
  const child = new Child<Told>('./jobs-worker.ts', given)
  const { open } = await child.first('it is open')
  return {
    child: child.process,
    instanceId: open!,
    holds: async (id) => (await child.tells(`it holds job ${id}`, ({ started }) => started === id)).attempt!,
    async kill() {
      child.kill()
      await child.ended()
    },
    close: () => child.close(),
  }
}
