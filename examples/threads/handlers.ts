// The handlers of ../threads.ts. Only the threads import this file.
import { pbkdf2Sync } from 'node:crypto'
import type { ThreadHandler } from 'holdfast'
import type { crash, hash, loop } from '../threads.ts'

export const hashPassword: ThreadHandler<typeof hash> = ({ password }, job) => {
  job.log('started')
  return pbkdf2Sync(password, 'salt', 300_000, 16, 'sha256').toString('hex')
}

// An endless loop. It reads no signal, so only the end of its thread stops it.
export const loopForever: ThreadHandler<typeof loop> = () => {
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
}

export const exit: ThreadHandler<typeof crash> = () => process.exit(1)
