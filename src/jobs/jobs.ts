import {
  abortSignal,
  backoffMs,
  Calls,
  checkName,
  DrainingError,
  type Duration,
  defaultTimes,
  describe,
  duration,
  flag,
  hasEnded,
  listOf,
  maxTimerMs,
  type OptionsAndWork,
  objectWith,
  pause,
  readOptions,
  readWork,
  toJson,
  UsageError,
  whenAborted,
  wholeNumber,
} from '../base/index.js'
import { arrayLiteral, type CallerTransaction, executorOf, type HealthReason } from '../postgres/index.js'
import { createJobsContext, type JobsContext, type JobsOptions } from './context.js'
import { checkImplemented } from './define.js'
import type { ImplementedJob, JobDefinition } from './definition.js'
import type { EnqueueManyOptions, EnqueueOptions } from './enqueue-options.js'
import { clip, JobFailedError, PayloadTooLargeError, ResultTimeoutError, StepLimitError } from './errors.js'
import type { FollowUps } from './follow-ups.js'
import {
  FoundJobs,
  type JobFilter,
  type JobList,
  type ListJobsOptions,
  type QueueStatus,
  reasonOf,
} from './found-jobs.js'
import { type ImportOptions, type ImportResult, importJobs } from './import/import.js'
import type { ImportSource } from './import/source.js'
import type { Intake } from './intake.js'
import type { JobOrId, JobRef } from './job-ref.js'
import type { Maintenance } from './maintenance.js'
import { type JobStatus, type StatusRow, statusOf } from './status.js'
import type { JobStore } from './store.js'
import { type JobChanges, type JobInputChanges, updateValues } from './update.js'
import type { WaitsForRow } from './waits-for.js'
import { JobWatches } from './watch.js'
import { Worker } from './worker.js'
import {
  type WorkflowBuilder,
  type WorkflowRef,
  type WorkflowRow,
  type WorkflowStatus,
  workflowOf,
} from './workflows.js'

export interface WorkOptions {
  /** Maximum number of jobs that run at the same time. The default is 10. */
  concurrency?: number | undefined
  /** Names of the queues that the worker serves. The default is the definitions' queues. */
  queues?: readonly string[] | undefined
}

export interface ResultOptions {
  /** Maximum time to wait until the job ends. The default is `30s`. */
  wait?: Duration | undefined
  signal?: AbortSignal | undefined
}

export interface RetryJobOptions {
  /** Whether to delete the job's recorded steps and its events, so that the job starts from the beginning. The default is false. */
  fromStart?: boolean | undefined
}

export interface SendOptions {
  /** Your open transaction. The event exists if and only if this transaction commits. */
  tx?: CallerTransaction | undefined
  /** Idempotency key. A second event with the same name and key for the same job is ignored. */
  key?: string | undefined
}

const retryRules = { fromStart: flag }
const sendRules = {
  tx: objectWith<CallerTransaction>('an open transaction'),
  key: { expected: 'a name', read: (given: unknown) => checkName(given, 'key') },
}
const maxEventBytes = 100_000

const workRules = {
  concurrency: wholeNumber(1, 10_000),
  queues: {
    expected: 'a list of names',
    read: (given: unknown) => {
      const names = listOf(given)
      return names?.length ? names.map((name) => checkName(name, 'queue')) : undefined
    },
  },
}
/** IDs of the jobs that a statement changed, and the numbers of their follow-ups, separated by commas. */
interface ChangedRow {
  ids: string[]
  follow_ups: string | null
}

interface SendRow {
  readonly answer: 'sent' | 'known' | 'ended' | 'full'
}

/** Result of job_look. */
interface LookResult {
  /** Numbers of the workers that may find a job. */
  readonly ready: readonly number[]
  readonly due_ms: number | null
  readonly works_from: number
}

const resultRules = { wait: duration(0, maxTimerMs), signal: abortSignal }

/**
 * Job queue. Enqueues background jobs, runs the jobs in workers and records their outcomes.
 *
 * @example
 * const sendEmail = defineJob('send-email', { run: async ({ to }: { to: string }) => mailer.send(to) })
 * await holdfast.jobs.enqueue(sendEmail, { to: 'ada@example.com' })
 * const worker = holdfast.jobs.work([sendEmail], { concurrency: 50 })
 */
export class Jobs {
  readonly #context: JobsContext
  readonly #store: JobStore
  readonly #intake: Intake
  readonly #maintenance: Maintenance
  readonly #followUps: FollowUps
  readonly #workers = new Set<Worker>()
  readonly #draining = new AbortController()
  readonly #calls = new Calls()
  readonly #found: FoundJobs
  readonly #watches: JobWatches
  readonly #onWorker: () => void
  #nextWorkerNumber = 0

  /** @internal */
  constructor(options: JobsOptions) {
    this.#context = createJobsContext(options, {
      onReady: () => {
        // Wakes the workers only if the instance has no listener. Otherwise, sleeping workers receive a notification.
        if (!this.#context.hasListener) this.#wakeAll()
      },
      findIdleWorker: (definition) => {
        for (const worker of this.#workers)
          if (worker.isIdleFor(definition)) return () => worker.wakeFor(definition.queue)
        return undefined
      },
    })
    const { store, intake, maintenance, followUps } = this.#context
    this.#onWorker = options.onWorker
    this.#store = store
    this.#found = new FoundJobs(options, options.namespace)
    this.#watches = new JobWatches(store)
    this.#intake = intake
    this.#maintenance = maintenance
    this.#followUps = followUps
    let asked: readonly Worker[] = []
    options.presence.lookOnHeartbeat({
      name: 'jobs',
      text: store.sql.look.text,
      ask: (epoch) => {
        asked = [...this.#workers].filter((worker) => worker.lookFor(epoch))
        if (!maintenance.isStarted || (asked.length === 0 && maintenance.isBusy)) return undefined
        return JSON.stringify({ session: epoch.number, workers: asked.map((worker) => worker.lookFor(epoch)) })
      },
      onAnswer: (answer) => {
        const { ready, due_ms: dueMs, works_from: worksFrom } = JSON.parse(answer) as LookResult
        maintenance.onLook(dueMs, worksFrom)
        for (const worker of asked) worker.onLook(maintenance.isOutdated || ready.includes(worker.number))
      },
    })
  }

  /**
   * Enqueues a job. With `tx`, the job belongs to your transaction. Without `tx`, the job exists as soon as the
   * promise resolves. Calls in the same turn of the event loop share one statement.
   *
   * @example
   * await holdfast.jobs.enqueue(sendEmail, { to }, { delay: '10m', priority: 2 })
   */
  enqueue<Result>(
    definition: JobDefinition<null, Result>,
    input?: null,
    options?: EnqueueOptions,
  ): Promise<JobRef<Result>>
  /** Enqueues a job with an input. */
  enqueue<Input, Result = unknown>(
    definition: JobDefinition<Input, Result>,
    input: NoInfer<Input>,
    options?: EnqueueOptions,
  ): Promise<JobRef<Result>>
  /** @internal */
  async enqueue(definition: JobDefinition, input?: unknown, options?: EnqueueOptions): Promise<JobRef> {
    return this.#calls.write(() => this.#intake.one(definition, input, options))
  }

  /** @internal Whether this instance has a worker. */
  get hasWorker(): boolean {
    return this.#workers.size > 0
  }

  /** @internal See `JobPort`. */
  prepare(definition: JobDefinition, input: unknown, priority: number): Promise<{ head: string; input: string }> {
    return this.#intake.prepare(definition, input, priority)
  }

  /**
   * Enqueues many jobs of one kind, up to 5,000 per statement. With `tx`, either all jobs are enqueued or none. Without
   * `tx`, some of the jobs may have been enqueued when an error occurs.
   *
   * @example
   * const jobs = await holdfast.jobs.enqueueMany(sendEmail, users.map(({ email }) => ({ to: email })))
   */
  async enqueueMany<Input, Result = unknown>(
    definition: JobDefinition<Input, Result>,
    inputs: readonly NoInfer<Input>[],
    options?: EnqueueManyOptions<NoInfer<Input>>,
  ): Promise<JobRef<Result>[]> {
    return this.#calls.write(() => this.#intake.many(definition, inputs, options)) as Promise<JobRef<Result>[]>
  }

  /**
   * Enqueues jobs that depend on each other. A single statement enqueues either all jobs or none. `workflow.add`
   * returns a handle. Pass this handle in `after` to jobs that you add later.
   *
   * @example
   * const { id } = await holdfast.jobs.enqueueWorkflow((workflow) => {
   *   const pages = urls.map((url) => workflow.add(fetchPage, { url }))
   *   workflow.add(makeIndex, { name: 'site' }, { after: pages })
   * })
   */
  enqueueWorkflow(build: (workflow: WorkflowBuilder) => void): Promise<WorkflowRef>
  /** Enqueues jobs that depend on each other, with options. */
  enqueueWorkflow(
    options: { tx?: CallerTransaction | undefined },
    build: (workflow: WorkflowBuilder) => void,
  ): Promise<WorkflowRef>
  /** @internal */
  async enqueueWorkflow(
    ...rest: OptionsAndWork<{ tx?: CallerTransaction | undefined }, (workflow: WorkflowBuilder) => void>
  ): Promise<WorkflowRef> {
    const [options, build] = readWork('jobs.enqueueWorkflow', rest)
    return this.#calls.write(() => this.#intake.workflow(build, options))
  }

  /**
   * Moves waiting jobs from another library's tables in this database. A single transaction enqueues a job in Holdfast
   * and removes the job from the other library. No job is lost, and no job runs in both libraries, even while the other
   * library's workers are running. Running jobs and jobs that cannot be imported stay in the other library. The result
   * counts these jobs by reason.
   *
   * @example
   * const { imported, skipped } = await holdfast.jobs.importFrom('pg-boss', { kind: 'send-email', dryRun: true })
   */
  async importFrom(from: ImportSource, options?: ImportOptions): Promise<ImportResult> {
    this.#calls.throwIfClosed()
    return importJobs(this.#store.database, this.#intake, from, options)
  }

  /**
   * Returns a workflow's status. Accepts the workflow, any of its jobs, or their IDs. Returns null if the
   * workflow does not exist, or if the history no longer contains any of its jobs.
   *
   * @example
   * const { isOver, counts } = (await holdfast.jobs.workflow(id))!
   */
  async workflow(workflow: JobOrId): Promise<WorkflowStatus | null> {
    const rows = await this.#store.read<WorkflowRow>('workflow', [idOf(workflow)])
    return rows.length === 0 ? null : workflowOf(rows)
  }

  /**
   * Starts a worker that claims and runs jobs with these definitions until the worker is closed. The worker runs at
   * most `concurrency` jobs at a time. If jobs are short, the worker also claims a few jobs ahead of time.
   *
   * @example
   * await using worker = holdfast.jobs.work([sendEmail, makeReport], { concurrency: 50 })
   */
  work(definitions: readonly ImplementedJob[], options?: WorkOptions): Worker {
    const { concurrency = 10, queues: given } = readOptions('jobs.work', options, workRules)
    this.#calls.throwIfClosed()
    this.#draining.signal.throwIfAborted()
    if (!listOf(definitions)?.length) {
      throw new UsageError(`Expected a list of definitions made by defineJob, got ${describe(definitions)}`)
    }
    const byKind = new Map<string, ImplementedJob>()
    for (const definition of definitions) {
      checkImplemented(definition)
      if (byKind.has(definition.kind))
        throw new UsageError(`Two job definitions have the same name "${definition.kind}"`)
      byKind.set(definition.kind, definition)
    }
    // A job that waits for a thread would only occupy a slot. Another worker may have a free thread.
    const maxUseful = definitions.reduce((sum, { threads }) => sum + (threads?.max ?? concurrency), 0)
    const queues = [...new Set(given ?? definitions.map(({ queue }) => queue))]
    void this.#maintenance.start()
    this.#onWorker()
    return new Worker(this.#context, this.#workers, {
      number: this.#nextWorkerNumber++,
      concurrency: Math.min(concurrency, maxUseful),
      definitions: byKind,
      queueNames: queues,
    })
  }

  /**
   * Cancels a job. A waiting job ends immediately. A running job's signal aborts within about a second, and the job
   * ends when its handler ends. Returns false if the job has ended or does not exist.
   *
   * @example
   * await holdfast.jobs.cancel(job.id, 'the order was withdrawn')
   */
  async cancel(job: JobOrId, reason?: string): Promise<boolean> {
    const id = idOf(job)
    const text = reasonOf({ reason })
    return this.#calls.write(() => this.#cancel(id, text))
  }

  async #cancel(id: number, reason: string): Promise<boolean> {
    // Retries, because the job may move between tables during the query.
    for (let tries = 0; tries < 5; tries++) {
      const [row] = await this.#store.run<{ follow_ups: string | null }>('cancel', [id, clip(reason)])
      if (row) {
        this.#followUps.add(row.follow_ups)
        return true
      }
      const status = await this.find(id)
      if (status === null || hasEnded(status.state)) return false
    }
    return false
  }

  /**
   * Runs a cancelled, expired, discarded or buried job again, without a deadline. The job keeps its recorded steps, unless `fromStart` is true. A
   * waiting job becomes due immediately, and a sleep ends. Returns false if the job does not exist, if it is ready, running,
   * done or archived, or if another job has the same unique key.
   *
   * @example
   * await holdfast.jobs.retry(job.id)
   */
  async retry(job: JobOrId, options?: RetryJobOptions): Promise<boolean> {
    const id = idOf(job)
    const { fromStart = false } = readOptions('jobs.retry', options, retryRules)
    const [row] = await this.#calls.write(() => this.#store.write<{ is_retried: boolean }>('retry', [id, fromStart]))
    if (row!.is_retried) this.#followUps.admit([id])
    return row!.is_retried
  }

  /**
   * Changes a job that is waiting or ready: its input, its earliest start, its deadline, its priority or its meta. Every change of
   * a ready job moves it behind the ready jobs with the same priority. Returns false and changes nothing if the job is running, has ended or
   * does not exist. With `startBy`, also returns false if the job has already failed, crashed or recorded a step. A worker
   * runs either the old job or the new one, never a mixture.
   *
   * @example
   * await holdfast.jobs.update(job.id, { definition: sendEmail, input: { to: 'bob@example.com' }, delay: '1h' })
   */
  update<Input>(job: JobOrId, changes: JobInputChanges<Input>): Promise<boolean>
  /** Changes when a job runs, without changing its input. */
  update(job: JobOrId, changes: JobChanges): Promise<boolean>
  /** @internal */
  async update(job: JobOrId, changes: JobChanges): Promise<boolean> {
    const id = idOf(job)
    const values = await updateValues(id, changes)
    const [row] = await this.#calls.write(() => this.#store.run<{ kind: string | null }>('update', values))
    const expected = values[1]
    if (row!.kind !== null && expected !== null && row!.kind !== expected) {
      throw new UsageError(`Expected the definition of job ${id}, whose kind is "${row!.kind}", got "${expected}"`)
    }
    if (row!.kind !== null) this.#followUps.admit([id])
    return row!.kind !== null
  }

  /**
   * Lists jobs of this namespace, without their inputs. Running jobs come first, then buried jobs (newest first), ready jobs in
   * claim order, waiting jobs by due time, and the other ended jobs (newest first). Filters other than the queue and the state have
   * no index: a page scans a limited number of jobs, and can be empty although `next` is not null.
   *
   * @example
   * for (let after: string | undefined; ; ) {
   *   const { jobs, next } = await holdfast.jobs.list({ queue: 'mail', state: 'buried', search: 'since:1h', after })
   *   for (const { id, failure } of jobs) console.log(id, failure)
   *   if (next === null) break
   *   after = next
   * }
   */
  async list(options?: ListJobsOptions): Promise<JobList> {
    this.#calls.throwIfClosed()
    return this.#found.list(options)
  }

  /**
   * Lists the queues of this namespace by name, with the number of jobs in each state, the number of workers, and the rates in the
   * last minute. Numbers above 10,000 are reported as 10,001.
   *
   * @example
   * for (const { name, ready, workers, rates } of await holdfast.jobs.queues()) console.log(name, ready, workers, rates.done)
   */
  async queues(): Promise<QueueStatus[]> {
    this.#calls.throwIfClosed()
    return this.#found.queues()
  }

  /**
   * Cancels all jobs that a filter selects, in batches. See `cancel`. Without a state, these are all jobs that have not
   * ended. Skips jobs whose state changes during the call. If the call fails, the jobs in the finished batches remain
   * cancelled. Returns the number of jobs that ended or received the request to stop.
   *
   * @example
   * await holdfast.jobs.cancelMany({ kind: 'send-email', search: 'input.campaign:42' }, { reason: 'the campaign was withdrawn' })
   */
  async cancelMany(filter: JobFilter, options?: { reason?: string | undefined }): Promise<number> {
    const reason = reasonOf(options)
    return this.#calls.write(() => this.#found.change('cancel', filter, (ids) => this.cancelEach(ids, reason)))
  }

  /**
   * Retries all jobs that a filter selects, in batches. See `retry`. Without a state, these are the buried jobs and the
   * jobs that are waiting for their next attempt. Skips a job if another job has its unique key. Returns the number of
   * jobs that can run.
   *
   * @example
   * await holdfast.jobs.retryMany({ kind: 'send-email', state: 'buried', search: 'since:1h error:503' })
   */
  async retryMany(filter: JobFilter): Promise<number> {
    return this.#calls.write(() => this.#found.change('retry', filter, (ids) => this.retryEach(ids)))
  }

  /**
   * Returns the job's status, and then its status after each change, until the job has ended. Changes that follow each
   * other within about 200 ms can be reported together. The last status is always reported. Ends immediately if the job
   * does not exist. One statement per poll reads all jobs that the instance watches.
   *
   * @example
   * for await (const { state, progress } of holdfast.jobs.watch(job)) console.log(state, progress)
   */
  async *watch(job: JobOrId, options?: { signal?: AbortSignal | undefined }): AsyncGenerator<JobStatus, void> {
    const { signal: given } = readOptions('jobs.watch', options, { signal: abortSignal })
    const id = idOf(job)
    this.#calls.throwIfClosed()
    const signal = given ? AbortSignal.any([this.#calls.closing, given]) : this.#calls.closing
    for (let seen: string | undefined; ; ) {
      const digest = await this.#watches.next(id, seen, signal)
      const status = digest === null ? null : await this.find(id)
      if (digest === null || status === null) return
      yield status
      if (hasEnded(status.state)) return
      seen = digest
    }
  }

  /** @internal Retries these jobs. See `retry`. Returns the IDs of the jobs that can run. */
  async retryEach(ids: readonly number[]): Promise<number[]> {
    const [row] = await this.#calls.write(() => this.#store.write<{ ids: string[] }>('retry_many', [arrayLiteral(ids)]))
    const retried = row!.ids.map(Number)
    if (retried.length > 0) this.#followUps.admit(retried)
    return retried
  }

  /** @internal Cancels these jobs. See `cancel`. Returns the IDs of the jobs that ended or received the request to stop. */
  async cancelEach(ids: readonly number[], reason: string): Promise<number[]> {
    const [row] = await this.#calls.write(() =>
      this.#store.run<ChangedRow>('cancel_many', [arrayLiteral(ids), clip(reason)]),
    )
    this.#followUps.add(row!.follow_ups)
    return row!.ids.map(Number)
  }

  /** @internal Discards the buried jobs among these jobs. Returns the IDs of the discarded jobs. */
  async discardEach(ids: readonly number[]): Promise<number[]> {
    const [row] = await this.#calls.write(() => this.#store.write<ChangedRow>('discard_many', [arrayLiteral(ids)]))
    this.#followUps.add(row!.follow_ups)
    return row!.ids.map(Number)
  }

  /**
   * Sends an event to a job, whose handler receives the data from `job.event`. The event is kept until the handler
   * calls `job.event` with its name. Several events with one name are received in the order in which they were sent,
   * one per call of `job.event`. Returns false if the job has ended or does not exist.
   *
   * @example
   * await holdfast.jobs.send(job.id, 'approved', { by: 'ada' })
   */
  async send(job: JobOrId, event: string, data: unknown = null, options?: SendOptions): Promise<boolean> {
    const id = idOf(job)
    checkName(event, 'event')
    const { tx, key = null } = readOptions('jobs.send', options, sendRules)
    const json = toJson(data, 'the data of an event') ?? 'null'
    const bytes = Buffer.byteLength(json)
    if (bytes > maxEventBytes) throw new PayloadTooLargeError('the data of an event', bytes, maxEventBytes)
    const values = [id, event, json, key]
    const [row] = await this.#calls.write(() =>
      tx ? this.#store.runIn<SendRow>(executorOf(tx), 'send', values) : this.#store.run<SendRow>('send', values),
    )
    if (row!.answer === 'full') throw new StepLimitError(`Job ${id} has 1000 events that its handler has not received`)
    return row!.answer !== 'ended'
  }

  /**
   * Returns a job's status, which includes its state, the reason why the job is waiting, its failures and its
   * result. Returns null if the job never existed, or if the history no longer contains the job.
   *
   * @example
   * const status = await holdfast.jobs.find(job.id)
   */
  async find(job: JobOrId): Promise<JobStatus | null> {
    const id = idOf(job)
    for (let tries = 0; tries < 2; tries++) {
      const [row] = await this.#store.run<StatusRow>('find', [id])
      if (!row) continue
      const isWaiting = row.state === 'waiting' || row.state === 'ready'
      const [why] = isWaiting ? await this.#store.read<WaitsForRow>('waits_for', [id]) : []
      return statusOf(row, why)
    }
    return null
  }

  /**
   * Waits until a job ends, and returns the job's result. The reference that `enqueue` returned determines the type of
   * the result. Throws a `ResultTimeoutError` if the job does not end within `wait`, and a `JobFailedError` if the job
   * ended without a result.
   *
   * @example
   * const job = await holdfast.jobs.enqueue(makeReport, { year: 2030 })
   * const report = await holdfast.jobs.result(job, { wait: '10s' })
   */
  result<Result>(job: JobRef<Result>, options?: ResultOptions): Promise<Result>
  /** Waits until this job ends, and returns its result. */
  result(job: JobOrId, options?: ResultOptions): Promise<unknown>
  /** @internal */
  result(job: JobOrId, options?: ResultOptions): Promise<unknown> {
    return this.#calls.run(
      'jobs.result',
      () => `job ${idOf(job)}`,
      true,
      () => this.#result(job, options),
    )
  }

  async #result(job: JobOrId, options: ResultOptions | undefined): Promise<unknown> {
    const { wait = defaultTimes.jobResultWaitMs, signal } = readOptions('jobs.result', options, resultRules)
    const id = idOf(job)
    const until = performance.now() + wait
    const giveUp = new AbortController()
    const forgets = [this.#calls.closing, signal].map((one) => whenAborted(one, (reason) => giveUp.abort(reason)))
    try {
      for (let attempt = 0; ; attempt++) {
        giveUp.signal.throwIfAborted()
        const [row] = await this.#store.run<Pick<StatusRow, 'state' | 'result' | 'error'>>('states', [
          arrayLiteral([id]),
        ])
        if (row?.state === 'done') return row.result === null ? undefined : JSON.parse(row.result)
        if (row && hasEnded(row.state)) {
          throw new JobFailedError(id, row.state as 'buried', row.error === null ? undefined : JSON.parse(row.error))
        }
        const leftMs = until - performance.now()
        if (leftMs <= 0) throw new ResultTimeoutError(id, wait)
        await pause(Math.min(leftMs, backoffMs(attempt, 10, 250)), giveUp.signal)
      }
    } finally {
      for (const forget of forgets) forget()
    }
  }

  /**
   * Pauses a queue. No worker claims jobs from this queue until the queue is resumed. Running jobs continue. Throws an
   * `UnknownQueueError` if no instance has ever used the queue.
   *
   * @example
   * await holdfast.jobs.pause('mail')
   */
  async pause(queue: string): Promise<void> {
    await this.#pause(queue, true)
  }

  /**
   * Resumes a paused queue. Throws an `UnknownQueueError` if no instance has ever used the queue.
   *
   * @example
   * await holdfast.jobs.resume('mail')
   */
  async resume(queue: string): Promise<void> {
    await this.#pause(queue, false)
    this.#wakeAll()
  }

  /**
   * Makes all of a queue's buried jobs (dead letters) ready again, with a fresh set of attempts. Skips a job if another
   * job has its unique key, or if the job is buried during the call. Returns the number of jobs that will run again.
   * Throws an `UnknownQueueError` if no instance has ever used the queue.
   *
   * @example
   * await holdfast.jobs.redrive('mail')
   */
  async redrive(queue: string): Promise<number> {
    return this.#calls.write(() => this.#redrive(queue))
  }

  async #redrive(queue: string): Promise<number> {
    let all = 0
    for await (const some of this.redriving(queue)) all += some
    if (all > 0) this.#maintenance.runIfStarted(0)
    else await this.#context.queues.throwIfUnknown(queue)
    return all
  }

  /** @internal Redrives jobs that were buried before the first step. Yields the number of jobs in each step. */
  async *redriving(queue: string): AsyncGenerator<number, void> {
    let startedAt: number | null = null
    for (;;) {
      const values: unknown[] = [this.#context.queues.existingKeyOf(queue), 1_000, startedAt]
      const [row] = await this.#store.write<{ jobs: number; started_at: number }>('redrive', values)
      if (row!.jobs === 0) return
      yield row!.jobs
      startedAt = row!.started_at
    }
  }

  /** @internal Keys of the queues that this instance has used, even if their names are not stored yet. */
  get usedQueues(): readonly string[] {
    return this.#context.queues.keys
  }

  /** @internal */
  keysOf(queues: readonly string[]): string {
    return this.#context.queues.keysOf(queues)
  }

  /** @internal Handles a notification from another instance or from a transaction. */
  onNotification(what: string, detail: string): void {
    if (what === 'jobs-running') {
      this.#maintenance.noteActivity()
      return
    }
    const epoch = this.#context.presence.epoch?.number
    if (what === 'jobs-maintenance-due') {
      if (detail === String(epoch)) this.#maintenance.runNow()
      return
    }
    if (what === 'jobs-waiting') {
      if (detail === String(epoch)) this.#maintenance.runWithin(50)
      return
    }
    if (what === 'jobs-cancel-requested') {
      if (detail === String(epoch)) for (const worker of this.#workers) worker.checkCancelled()
      return
    }
    const called = new Set(detail.split(','))
    for (const worker of this.#workers) if (called.has(`${epoch}.${worker.number}`)) worker.wake()
  }

  /** @internal Reasons why this instance's workers cannot run jobs. */
  troubles(): HealthReason[] {
    return [...this.#workers].flatMap(({ trouble }) => trouble ?? [])
  }

  /** @internal Closes the workers. Enqueueing continues. */
  async drain(withinMs: number): Promise<void> {
    this.#draining.abort(new DrainingError('instance'))
    await Promise.all([...this.#workers].map((worker) => worker.close({ within: withinMs })))
  }

  /** @internal Resolves when all earlier calls' writes have finished. */
  waitForWrites(): Promise<void> {
    return this.#calls.waitForWrites()
  }

  /** @internal */
  async close(): Promise<void> {
    this.#calls.close()
    await Promise.all([...this.#workers].map((worker) => worker.close()))
    this.#context.unserved.close()
    await this.#followUps.close()
    await this.#maintenance.close()
  }

  async #pause(queue: string, pauses: boolean): Promise<void> {
    const { queues, namespace } = this.#context
    const set = async (isKnown: boolean) =>
      (await this.#store.run('pause', [queues.existingKeyOf(queue), namespace, queue, pauses, isKnown])).length > 0
    await this.#calls.write(async () => {
      if (await set(queues.isUsed(queue))) return
      await queues.throwIfUnknown(queue)
      // An instance has used the queue for the first time since the first statement.
      await set(true)
    })
  }

  #wakeAll(): void {
    for (const worker of this.#workers) worker.wakeIfRoom()
  }
}

/** Accepts an ID, or an object with an ID, such as a reference to a job or the status of a job. */
function idOf(given: unknown): number {
  const id = typeof given === 'object' && given !== null ? (given as { id?: unknown }).id : given
  if (Number.isSafeInteger(id) && (id as number) > 0) return id as number
  throw new UsageError(`Expected a job or its id (a positive whole number), got ${describe(given)}`)
}
