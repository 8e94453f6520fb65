import type { ChildProcess } from 'node:child_process'
import { Child } from './children.js'
import { expiryMs } from './fixture.js'

export interface WorkerProcess {
  readonly child: ChildProcess
  readonly instanceId: string
  /** Waits until the process runs the job `hold`. Resolves with the attempt. */
  holds(id: number): Promise<number>
  kill(): Promise<void>
  close(): Promise<void>
}

interface Message {
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
  const details = { url, expiryMs, anchor: 'required', concurrency: 10, ...options }
  const child = new Child<Message>('./jobs-worker.ts', details)
  const { open } = await child.first('the id of its instance')
  return {
    child: child.process,
    instanceId: open!,
    holds: async (id) => (await child.waitFor(`it runs job ${id}`, ({ started }) => started === id)).attempt!,
    async kill() {
      child.kill()
      await child.ended()
    },
    close: () => child.close(),
  }
}
