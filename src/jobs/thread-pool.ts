import threads, { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { errorLine, memberOf, messageOf, UsageError, whenAborted } from '../base/index.js'
import type { ImplementedJob, ThreadJob, Threads } from './definition.js'
import { NonRetryableError, ThreadEndedError, ThreadModuleError } from './errors.js'
import { JobOutcome } from './outcome.js'
import { type TimedJob, timeoutOf } from './policy.js'
import { stopMs } from './stop-time.js'
import {
  type AttemptEndMessage,
  type CopiedAttempt,
  type RunMessage,
  stopMessage,
  type ThreadMessage,
  thrownError,
} from './thread-messages.js'

/** An attempt that runs in a thread. */
export interface ThreadedAttempt extends ThreadJob {
  readonly job: TimedJob
  readonly stopReason: Parameters<typeof stopMessage>[0] | undefined
  readonly isOver: boolean
  /** The attempt's thread. Undefined until the attempt has received a thread. */
  readonly thread: JobThread | undefined
}

/** The handler of a definition with `threads`: runs the attempt in its thread. */
export async function runInThread(input: unknown, job: unknown): Promise<unknown> {
  const attempt = job as ThreadedAttempt
  // Middleware may call the handler after the attempt has ended. Another attempt then has the thread.
  if (attempt.isOver) throw attempt.stopReason ?? new UsageError('The attempt ended before the middleware called next')
  return attempt.thread!.run(input, attempt)
}

interface Waiting {
  readonly resolve: (thread: JobThread | undefined) => void
  readonly reject: (error: unknown) => void
  readonly forget: () => void
}

/** The threads of one worker for one definition. Threads start when they are needed, and run one attempt at a time. */
class ThreadPool {
  readonly #options: Threads
  readonly #running = new Set<JobThread>()
  readonly #idle: JobThread[] = []
  readonly #waiting = new Set<Waiting>()
  readonly #kind: string

  constructor(kind: string, options: Threads) {
    this.#kind = kind
    this.#options = options
  }

  /** Resolves to a thread that is free, or to undefined if the signal aborts first. */
  acquire(signal: AbortSignal): Promise<JobThread | undefined> | JobThread | undefined {
    if (signal.aborted) return undefined
    const idle = this.#idle.pop()
    if (idle) return idle
    if (this.#running.size < this.#options.max) return this.#start()
    return new Promise((resolve, reject) => {
      const forget = whenAborted(signal, () => {
        this.#waiting.delete(waiting)
        resolve(undefined)
      })
      const waiting = { resolve, reject, forget }
      this.#waiting.add(waiting)
    })
  }

  release(thread: JobThread): void {
    // A thread that is ending keeps its place until it has ended, so that there are never more threads than permitted.
    if (thread.isEnding) return
    const next = this.#nextWaiting()
    if (next) next.resolve(thread)
    else this.#idle.push(thread)
  }

  giveUpWaiting(): void {
    for (let next = this.#nextWaiting(); next; next = this.#nextWaiting()) next.resolve(undefined)
  }

  close(): void {
    this.giveUpWaiting()
    for (const thread of this.#running) thread.end()
  }

  #start(): JobThread {
    const thread = new JobThread(this.#kind, this.#options)
    this.#running.add(thread)
    void thread.ended.then(() => this.#onEnd(thread))
    return thread
  }

  #onEnd(thread: JobThread): void {
    this.#running.delete(thread)
    const at = this.#idle.indexOf(thread)
    if (at >= 0) this.#idle.splice(at, 1)
    const next = this.#nextWaiting()
    if (!next) return
    try {
      next.resolve(this.#start())
    } catch (error) {
      next.reject(error)
    }
  }

  #nextWaiting(): Waiting | undefined {
    const [next] = this.#waiting
    if (!next) return undefined
    this.#waiting.delete(next)
    next.forget()
    return next
  }
}

/** The threads of one worker. */
export class ThreadPools {
  readonly #pools = new Map<string, ThreadPool>()

  /** Waits for a free thread and gives it to the attempt. Returns false if the attempt must not run. */
  async acquire(
    run: { thread: JobThread | undefined; readonly signal: AbortSignal },
    job: ImplementedJob,
  ): Promise<boolean> {
    let pool = this.#pools.get(job.kind)
    if (!pool) {
      pool = new ThreadPool(job.kind, job.threads!)
      this.#pools.set(job.kind, pool)
    }
    run.thread = await pool.acquire(run.signal)
    return run.thread !== undefined
  }

  release(thread: JobThread): void {
    this.#pools.get(thread.kind)!.release(thread)
  }

  /** Ends all waits for a thread. */
  giveUpWaiting(): void {
    for (const pool of this.#pools.values()) pool.giveUpWaiting()
  }

  /**
   * Ends all threads. Does not wait for their ends, because a synchronous native call can delay the end of its thread.
   */
  close(): void {
    for (const pool of this.#pools.values()) pool.close()
  }
}

interface CurrentAttempt {
  readonly attempt: ThreadedAttempt
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** A thread that imports the module of a definition and runs its handler. */
export class JobThread {
  /** Resolves when the thread has ended. */
  readonly ended: Promise<void>
  isEnding = false
  readonly #options: Threads
  readonly #thread: threads.Worker
  readonly #port: MessagePort
  #current: CurrentAttempt | undefined
  #endError: ThreadEndedError | undefined
  #failure: { readonly error: unknown } | undefined

  constructor(
    readonly kind: string,
    options: Threads,
  ) {
    this.#options = options
    const { module, exportName, maxHeapMb } = options
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    this.#port.on('message', (message: ThreadMessage) => this.#onMessage(message))
    this.#thread = new threads.Worker(new URL('./thread-main.js', import.meta.url), {
      workerData: { port: port2, module, exportName },
      transferList: [port2],
      resourceLimits: maxHeapMb === undefined ? {} : { maxOldGenerationSizeMb: maxHeapMb },
    })
    this.#thread.on('error', (error) => {
      this.#failure = { error }
    })
    this.ended = new Promise((resolve) => {
      this.#thread.once('exit', (exitCode) => {
        this.#onExit(exitCode)
        resolve()
      })
    })
  }

  /** Runs the handler. Rejects if the handler throws, if the thread ends, or if the handler does not stop in time. */
  async run(input: unknown, attempt: ThreadedAttempt): Promise<unknown> {
    if (this.isEnding) {
      await this.ended
      throw this.#endError
    }
    let timer: NodeJS.Timeout | undefined
    const answer = new Promise((resolve, reject) => {
      this.#current = { attempt, resolve, reject }
    })
    this.#send({ type: 'run', attempt: copyOf(attempt), input })
    const forget = whenAborted(attempt.signal, () => {
      this.#port.postMessage(stopMessage(attempt.stopReason!))
      timer = setTimeout(() => {
        this.#settle()?.reject(attempt.stopReason)
        this.end()
      }, stopMs)
    })
    try {
      return await answer
    } finally {
      forget()
      clearTimeout(timer)
    }
  }

  end(): void {
    this.isEnding = true
    void this.#thread.terminate()
  }

  #send(message: RunMessage): void {
    try {
      this.#port.postMessage(message)
    } catch (error) {
      // Another attempt would have the same input.
      const problem = `The input of "${this.kind}" cannot be copied to a thread: ${messageOf(error)}`
      this.#settle()?.reject(new NonRetryableError(problem, { cause: error }))
    }
  }

  #settle(): CurrentAttempt | undefined {
    const current = this.#current
    this.#current = undefined
    return current
  }

  #onMessage(message: ThreadMessage): void {
    if (message.type === 'progress') this.#current?.attempt.progress(message.value)
    else if (message.type === 'log') this.#current?.attempt.log(...message.line)
    else this.#onEndOfAttempt(message)
  }

  #onEndOfAttempt(message: AttemptEndMessage): void {
    // Node.js remembers a failed import until the thread ends. A new thread reads the file again.
    if (message.type === 'unusable') this.end()
    const current = this.#settle()
    if (message.type === 'returned') current?.resolve(message.value)
    else if (message.type === 'outcome')
      current?.resolve(new JobOutcome(message.state, message.reason, message.delayMs))
    else if (message.type === 'failed') current?.reject(thrownError(message.error, message.isFinal))
    else current?.reject(new ThreadModuleError(this.#options.module, message.problem, message.stack))
  }

  #onExit(exitCode: number): void {
    this.isEnding = true
    // The thread may have sent messages that have not been delivered.
    for (let got = receiveMessageOnPort(this.#port); got; got = receiveMessageOnPort(this.#port))
      this.#onMessage(got.message)
    this.#port.close()
    this.#endError = new ThreadEndedError(this.kind, this.#reasonOf(exitCode), this.#failure?.error)
    this.#settle()?.reject(this.#endError)
  }

  #reasonOf(exitCode: number): string {
    if (!this.#failure) return `with exit code ${exitCode}`
    const { error } = this.#failure
    if (memberOf(error, 'code') === 'ERR_WORKER_OUT_OF_MEMORY') return 'because it had no memory left'
    return `with an uncaught error: ${errorLine(error)}`
  }
}

function copyOf({ id, kind, attempt, meta, fence, job }: ThreadedAttempt): CopiedAttempt {
  return { id, kind, attempt, meta, fence, timeoutMs: timeoutOf(job) }
}
