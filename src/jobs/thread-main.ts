// Program of a thread that runs the handler of a definition with `threads`.
import { type MessagePort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { describe, isInstance, memberOf, textOf, toRecordedError } from '../base/index.js'
import type { JobContext, ThreadJob } from './definition.js'
import { NonRetryableError, NotInThreadError } from './errors.js'
import { JobOutcome } from './outcome.js'
import { readProgress } from './progress.js'
import {
  type CopiedAttempt,
  type RunMessage,
  type StopMessage,
  stopReasonOf,
  type ThreadData,
  type ThreadMessage,
} from './thread-messages.js'

const { port, module, exportName } = workerData as ThreadData & { port: MessagePort }
let current: ThreadAttempt | undefined

/** The context that the handler receives. */
class ThreadAttempt implements ThreadJob {
  readonly id: number
  readonly kind: string
  readonly attempt: number
  readonly meta: ThreadJob['meta']
  readonly fence: number
  readonly #copied: CopiedAttempt
  readonly #controller = new AbortController()
  isOver = false

  constructor(copied: CopiedAttempt) {
    const { id, kind, attempt, meta, fence } = copied
    this.#copied = copied
    this.id = id
    this.kind = kind
    this.attempt = attempt
    this.meta = meta
    this.fence = fence
  }

  get signal(): AbortSignal {
    // A handler that computes without a pause blocks the thread's event loop, which would deliver the message.
    for (let got = receiveMessageOnPort(port); got; got = receiveMessageOnPort(port)) onMessage(got.message)
    return this.#controller.signal
  }

  get tx(): never {
    throw new NotInThreadError('tx')
  }

  get enqueue(): never {
    throw new NotInThreadError('enqueue')
  }

  get parents(): never {
    throw new NotInThreadError('parents')
  }

  get step(): never {
    throw new NotInThreadError('step')
  }

  get cursor(): never {
    throw new NotInThreadError('cursor')
  }

  get sleep(): never {
    throw new NotInThreadError('sleep')
  }

  get event(): never {
    throw new NotInThreadError('event')
  }

  // The following members must work without `this`, because handlers destructure their context.
  readonly progress: JobContext['progress'] = (value) => {
    const progress = this.isOver ? undefined : readProgress(value)
    if (progress !== undefined) send({ type: 'progress', value: progress })
  }

  readonly log: JobContext['log'] = (...line) => {
    if (this.isOver) return
    try {
      send({ type: 'log', line })
    } catch {
      send({ type: 'log', line: line.map(textOf) as typeof line })
    }
  }

  stop(message: StopMessage): void {
    this.#controller.abort(stopReasonOf(message, this.#copied))
  }
}

async function run({ attempt, input }: RunMessage): Promise<void> {
  const job = new ThreadAttempt(attempt)
  current = job
  try {
    await runHandler(input, job)
  } finally {
    current = undefined
  }
}

async function runHandler(input: unknown, job: ThreadAttempt): Promise<void> {
  let handler: unknown
  try {
    handler = ((await import(module)) as Record<string, unknown>)[exportName]
  } catch (error) {
    const { name, message, stack } = toRecordedError(error)
    send({ type: 'unusable', problem: `cannot be imported: ${name}: ${message}`, stack })
    return
  }
  if (typeof handler !== 'function') {
    const problem = `must export the handler as "${exportName}", got ${describe(handler)}`
    send({ type: 'unusable', problem, stack: undefined })
    return
  }
  try {
    const value = await handler(input, job)
    job.isOver = true
    sendValue(value)
  } catch (error) {
    job.isOver = true
    const isFinal = isInstance(error, NonRetryableError) || isInstance(error, NotInThreadError)
    send({ type: 'failed', error: toRecordedError(error), isFinal })
  }
}

function sendValue(value: unknown): void {
  if (JobOutcome.is(value)) {
    const { state, reason, delayMs } = value
    send({ type: 'outcome', state, reason, delayMs })
    return
  }
  try {
    send({ type: 'returned', value })
  } catch (error) {
    // Another attempt would repeat the work and return the same value.
    throw new NonRetryableError(`The result cannot be copied to the worker: ${memberOf(error, 'message')}`)
  }
}

function send(message: ThreadMessage): void {
  port.postMessage(message)
}

function onMessage(message: RunMessage | StopMessage): void {
  if (message.type === 'run') void run(message)
  else current?.stop(message)
}

port.on('message', onMessage)
