// Handlers that test/jobs/threads.test.ts runs in threads. This file is JavaScript, so that all versions of Node.js can import it in a thread.
import { threadId } from 'node:worker_threads'
import { JobOutcome, NonRetryableError } from '../../dist/index.js'

/** Blocks the thread without using the processor. */
function block(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

export default function describeJob({ at, text }, { id, kind, attempt, meta, fence, progress, log }) {
  progress(0.5)
  log(`${text} in a thread`, { year: at.getUTCFullYear() })
  return { id, kind, attempt, meta, fence: fence > 0, threadId, date: at instanceof Date, map: new Map([[1, 2]]).size }
}

export const whichThread = async (ms) => {
  await new Promise((resolve) => setTimeout(resolve, ms))
  return threadId
}

export const misbehave = async ({ how }, job) => {
  if (how === 'throw') throw Object.assign(new RangeError('too far'), { code: 'FAR' })
  if (how === 'give up') throw new NonRetryableError('no use')
  if (how === 'discard') return JobOutcome.discard('nothing to do')
  if (how === 'retry') return JobOutcome.retryAfter('1h')
  if (how === 'function') return () => {}
  if (how === 'exit') process.exit(3)
  if (how === 'throw later') setImmediate(() => nothing())
  if (how === 'memory') for (const all = []; ; ) all.push(new Array(1_000).fill({}))
  if (how === 'log a function') return job.log('see', () => {})
  if (how in job) return typeof job[how]
  return new Promise(() => {})
}

export const blockForever = () => block()

/** Computes until the signal aborts, without a pause in which the thread could receive a message. */
export const compute = (_, job) => {
  job.progress(1)
  while (!job.signal.aborted) block(10)
  job.log(`${job.signal.reason.name} ${job.signal.reason.code}`)
  job.signal.throwIfAborted()
}

export const waitForAbort = (_, { signal, progress }) => {
  progress(1)
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

/** Returns, and ends its thread later. */
export const endLater = () => {
  setTimeout(() => process.exit(3), 300)
}
