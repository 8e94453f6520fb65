import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { within } from '../setup/facts.js'
import { expiryMs } from './stage.js'

const program = fileURLToPath(new URL('./jobs-worker.mjs', import.meta.url))

export interface WorkerProcess {
  readonly child: ChildProcess
  readonly instanceId: string
  /** Resolves with the attempt when it starts to hold the job. */
  holds(id: number): Promise<number>
  kill(): Promise<void>
  close(): Promise<void>
}

export async function startWorker(
  url: string,
  options: { queues: string[]; anchor?: 'required' | 'none'; concurrency?: number; claims?: 'rows' | 'advisory' },
): Promise<WorkerProcess> {
  const child = fork(
    program,
    [JSON.stringify({ url, expiryMs, anchor: 'required', claims: 'rows', concurrency: 10, ...options })],
    {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    },
  )
  onTestFinished(() => void child.kill('SIGKILL'))
  const held = new Map<number, number>()
  const waiting = new Map<number, (attempt: number) => void>()
  let opened = (_: string) => {}
  const opening = new Promise<string>((resolve) => {
    opened = resolve
  })
  child.on('message', (message: { open?: string; started?: number; attempt?: number }) => {
    if (message.open) opened(message.open)
    if (message.started === undefined) return
    held.set(message.started, message.attempt!)
    waiting.get(message.started)?.(message.attempt!)
  })
  const instanceId = await within(30_000, 'Opening', opening)
  return {
    child,
    instanceId,
    holds: (id) => (held.has(id) ? Promise.resolve(held.get(id)!) : new Promise((resolve) => waiting.set(id, resolve))),
    async kill() {
      const exited = once(child, 'exit')
      child.kill('SIGKILL')
      await exited
    },
    async close() {
      const exited = once(child, 'exit')
      child.send('close')
      await within(40_000, 'Closing', exited)
    },
  }
}
