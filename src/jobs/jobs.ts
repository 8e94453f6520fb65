import {
  abortSignal,
  backoffMs,
  ClosedError,
  checkName,
  type Duration,
  describe,
  duration,
  type Events,
  hashedKey,
  InstanceDrainingError,
  made,
  oneOf,
  pause,
  readOptions,
  type Tracing,
  UsageError,
  whenAborted,
  wholeNumber,
} from '../base/index.js'
import {
  type Anchor,
  type CallerTransaction,
  type Database,
  type Executor,
  executorOf,
  type Presence,
  SessionLocksUnavailableError,
} from '../postgres/index.js'
import { AdvisoryClaims } from './advisory-claims.js'
import type { Claims, Way as ClaimWay } from './claims.js'
import { highestPriority, lowestPriority } from './cursors.js'
import { type AnyDefinition, type ChildOptions, type JobDefinition, validated } from './define.js'
import { Enqueuing, type Way } from './enqueuing.js'
import { clip, JobFailedError } from './errors.js'
import { arrayOf, Ledger } from './ledger.js'
import { LooseEnds } from './loose-ends.js'
import { writePayload } from './payload.js'
import { Rounds } from './rounds.js'
import { RowsClaims } from './rows-claims.js'
import type { Run } from './run.js'
import { type JobStatus, type StatusRow, statusOf } from './status.js'
import type { Ties } from './ties.js'
import { readUnique, UniqueEnqueuing, type UniqueOptions, uniqueRule } from './unique.js'
import type { WaitsForRow } from './waits-for.js'
import { Worker } from './worker.js'
import {
  type JobParent,
  type WorkflowBuilder,
  type WorkflowRef,
  type WorkflowRow,
  type WorkflowStatus,
  workflowOf,
} from './workflows.js'

export interface EnqueueOptions {
  /** An open transaction of yours (of pg or postgres.js): the job is there when it commits, and only then. */
  tx?: CallerTransaction | undefined
  /** Not before so long from now, on the clock of the database. */
  delay?: Duration | undefined
  /** Not before this moment. */
  runAt?: Date | undefined
  /** Larger goes first: a whole number from -5 to 5. Default 0. */
  priority?: number | undefined
  /** A key that only one job of its queue and kind has at a time: the job is enqueued, or it is there already. */
  unique?: string | UniqueOptions | undefined
  /**
   * The entity that it is about, such as `shop:7`: of the jobs of one lane of a queue only so many run at once as the
   * definition says (`lanes`), in all processes together, in the order in which they came.
   */
  lane?: string | undefined
  /** Jobs that have to end before: those are done, or were discarded, then it may run. */
  after?: readonly (JobRef | number)[] | undefined
  /**
   * What becomes of it when one of these fails, that is, ends as buried or cancelled. `cancel`: it is cancelled, too, and so
   * on. `run`: it runs all the same. `wait`: it waits until that one was retried, and is done. Default `cancel`.
   */
  ifFailed?: 'cancel' | 'run' | 'wait' | undefined
}

export interface EnqueueManyOptions<Input> extends Omit<EnqueueOptions, 'unique'> {
  /** What gives the key of an input. */
  unique?: ((input: Input) => string) | UniqueOptions<(input: Input) => string> | undefined
}

/** A job that was enqueued. */
export interface JobRef {
  readonly id: number
  /** False when another job had the unique key: then this is that one. */
  readonly isNew: boolean
}

export interface WorkOptions {
  /** How many jobs it runs at once. Default 10. */
  concurrency?: number | undefined
  /** Which queues it serves. Default: those of its definitions. */
  queues?: readonly string[] | undefined
}

export interface ResultOptions {
  /** How long to wait for its end. Default `30s`. */
  wait?: Duration | undefined
  signal?: AbortSignal | undefined
}

export interface JobsOptions {
  readonly database: Database
  readonly presence: Presence
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  /** How long the history is kept. */
  readonly keepDays: number
  /** By which news reaches this instance, and on which jobs are locked. */
  readonly anchor: Anchor | undefined
  readonly claims: ClaimWay
  readonly events: Events
  readonly tracing: Tracing
}

const longestMs = 3_650 * 86_400_000

const childRules = {
  delay: duration(0, longestMs),
  runAt: {
    expected: 'a valid Date',
    read: (given: unknown) => (given instanceof Date && !Number.isNaN(given.getTime()) ? given : undefined),
  },
  priority: wholeNumber(lowestPriority, highestPriority),
  unique: uniqueRule,
  lane: { expected: 'a name', read: (given: unknown) => checkName(given, 'lane') },
  after: { expected: 'a list of jobs that were enqueued, or of their ids', read: idsOf },
  ifFailed: oneOf('cancel', 'run', 'wait'),
}
const { unique: _, ...workflowRules } = childRules
const enqueueRules = {
  ...childRules,
  tx: made<CallerTransaction>('a client inside a transaction (of pg, or the sql of postgres.js)'),
}
/** What ties a job to others; undefined for nothing. */
function tiesOf({ lanes }: AnyDefinition, { lane, after = [], ifFailed }: Asked, more: Ties = {}): Ties | undefined {
  const ties: Ties = {
    ...(lane === undefined ? {} : { lane: { name: lane, ...lanes } }),
    ...(after.length === 0 ? {} : { after }),
    ...(after.length === 0 || ifFailed === undefined || ifFailed === 'cancel' ? {} : { ifFailed }),
    ...more,
  }
  return Object.values(ties).some((tie) => tie !== undefined) ? ties : undefined
}

/** What was asked for, as it was read. */
type Asked = ReturnType<typeof readOptions<typeof childRules>>

const workRules = {
  concurrency: wholeNumber(1, 10_000),
  queues: {
    expected: 'a list of names',
    read: (given: unknown) =>
      Array.isArray(given) && given.length > 0 ? given.map((name) => checkName(name, 'queue')) : undefined,
  },
}
const resultRules = { wait: duration(0, 24 * 86_400_000), signal: abortSignal }

/** A statement takes so many at most, and so many bytes. */
const mostTogether = 5_000
const mostBytes = 4_000_000

/**
 * Jobs: work that is written down with the data it is about, and runs somewhere, some time, to a recorded end.
 *
 * @example
 * const sendEmail = defineJob('send-email', { run: async ({ to }: { to: string }) => mailer.send(to) })
 * await holdfast.jobs.enqueue(sendEmail, { to: 'ada@example.com' })
 * const worker = holdfast.jobs.work([sendEmail], { concurrency: 50 })
 */
export class Jobs {
  readonly #options: JobsOptions
  readonly #ledger: Ledger
  readonly #enqueuing: Enqueuing
  readonly #unique: UniqueEnqueuing
  readonly #rounds: Rounds
  readonly #claims: Claims | undefined
  readonly #looseEnds: LooseEnds
  readonly #workers = new Set<Worker>()
  readonly #queueKeys = new Map<string, string>()
  readonly #draining = new AbortController()
  readonly #closing = new AbortController()
  #begun: Promise<void> | undefined
  #numbers = 0
  #lastNumber = 0

  /** @internal */
  constructor(options: JobsOptions) {
    this.#options = options
    this.#ledger = new Ledger(options)
    const { keepDays, schema } = options
    this.#rounds = new Rounds(this.#ledger, { idleMs: this.#hasListener ? 5_000 : 1_000, keepDays, schema })
    const { claims, anchor } = options
    if (claims === 'rows') this.#claims = new RowsClaims(this.#ledger)
    else this.#claims = anchor && new AdvisoryClaims(this.#ledger, anchor, this.#rounds)
    this.#looseEnds = new LooseEnds({
      ledger: this.#ledger,
      life: () => options.presence.life?.number,
      onMoved: () => {
        // With a listener, whoever sleeps was told.
        if (!this.#hasListener) for (const worker of this.#workers) worker.wake()
      },
      onDue: (ms) => this.#roundSoon(ms),
    })
    this.#enqueuing = new Enqueuing(this.#ledger, this.#looseEnds)
    this.#unique = new UniqueEnqueuing(this.#ledger)
  }

  /**
   * Enqueues a job. With `tx` it belongs to your transaction; without, it is there when this resolves. What is enqueued in
   * one turn of the event loop goes out as one statement.
   *
   * @example
   * await holdfast.jobs.enqueue(sendEmail, { to }, { delay: '10m', priority: 2 })
   */
  async enqueue<Input>(
    // biome-ignore lint/suspicious/noExplicitAny: whatever its handler takes and returns
    definition: JobDefinition<Input, any, any>,
    input: Input,
    options?: EnqueueOptions,
  ): Promise<JobRef> {
    this.#throwIfClosed()
    const { tx, ...asked } = readOptions('jobs.enqueue', options, enqueueRules)
    return this.#enqueueOne(definition, input, asked, tx && executorOf(tx))
  }

  /**
   * Enqueues many jobs of one kind, thousands in one statement. With `tx` all or none; without, a failure may leave some.
   *
   * @example
   * const jobs = await holdfast.jobs.enqueueMany(sendEmail, users.map(({ email }) => ({ to: email })))
   */
  async enqueueMany<Input>(
    // biome-ignore lint/suspicious/noExplicitAny: whatever its handler takes and returns
    definition: JobDefinition<Input, any, any>,
    inputs: readonly Input[],
    options?: EnqueueManyOptions<Input>,
  ): Promise<JobRef[]> {
    this.#throwIfClosed()
    const { tx, ...asked } = readOptions('jobs.enqueueMany', options, enqueueRules)
    const count = Array.isArray(inputs) ? inputs.length : 0
    return this.#sent(definition, count, () => this.#enqueueMany(definition, inputs, asked, tx && executorOf(tx)))
  }

  async #enqueueMany<Input>(
    definition: AnyDefinition,
    inputs: readonly Input[],
    asked: Asked,
    executor: Executor | undefined,
  ): Promise<JobRef[]> {
    const { head, way, slotOf } = this.#headOf(definition, asked, true)
    if (!Array.isArray(inputs)) throw new UsageError(`Expected a list of inputs, got ${describe(inputs)}`)
    // All are checked before any is enqueued.
    const payloads: string[] = []
    for (const input of inputs) {
      const payload = this.#payloadOf(definition, input)
      payloads.push(payload instanceof Promise ? await payload : payload)
    }
    const slots = slotOf && inputs.map(slotOf)
    if (asked.after) await this.#checkAfter(asked.after)
    const refs: JobRef[] = []
    for (let from = 0; from < payloads.length; ) {
      let to = from
      for (let bytes = 0; to < payloads.length && to - from < mostTogether && bytes < mostBytes; to++) {
        bytes += payloads[to]!.length
      }
      const together = payloads.slice(from, to)
      if (slots) {
        const asked = together.map((payload, at) => ({ payload, ...slots[from + at]! }))
        const unique = await this.#unique.many(asked, executor)
        if (way === 'enqueue_tied' && !executor) this.#looseEnds.entering(unique.map(({ id }) => id))
        refs.push(...unique)
      } else {
        for (const id of await this.#enqueuing.many(head, together, way, executor)) refs.push({ id, isNew: true })
      }
      from = to
    }
    this.#tellEnqueued(definition, refs, executor)
    return refs
  }

  /**
   * Enqueues jobs that wait for each other, all of them or none, in one statement. What `workflow.add` answers stands for a
   * job that is still to be enqueued, in `after` of those that are added later.
   *
   * @example
   * const { id } = await holdfast.jobs.enqueueWorkflow((workflow) => {
   *   const pages = urls.map((url) => workflow.add(fetchPage, { url }))
   *   workflow.add(makeIndex, { name: 'site' }, { after: pages })
   * })
   */
  async enqueueWorkflow(
    build: (workflow: WorkflowBuilder) => void,
    options?: { tx?: CallerTransaction | undefined },
  ): Promise<WorkflowRef> {
    this.#throwIfClosed()
    const { tx } = readOptions('jobs.enqueueWorkflow', options, { tx: enqueueRules.tx })
    const parts: { definition: AnyDefinition; input: unknown; asked: Asked }[] = []
    const places = new Map<object, number>()
    let isOver = false
    build({
      add: (definition, input, given) => {
        if (isOver) throw new UsageError('Expected jobs to be added while the workflow is built, got one after that')
        const { after, ...others } = given ?? {}
        const [known, early] = [[] as number[], [] as number[]]
        for (const one of after ?? []) {
          const at = typeof one === 'object' && one !== null ? places.get(one) : undefined
          if (at === undefined) known.push(one as number)
          else early.push(at)
        }
        const asked = readOptions('workflow.add', { ...others, after: known }, workflowRules)
        checkDefinition(definition)
        const part = Object.freeze({ kind: definition.kind })
        places.set(part, parts.length)
        // Places are told from ids by their sign until the ids are drawn.
        parts.push({ definition, input, asked: { ...asked, after: [...asked.after!, ...early.map((at) => -1 - at)] } })
        return part
      },
    })
    isOver = true
    if (parts.length === 0) throw new UsageError('Expected a workflow of at least one job, got none')
    const payloads = await Promise.all(parts.map(({ definition, input }) => this.#payloadOf(definition, input)))
    await this.#checkAfter(parts.flatMap(({ asked }) => asked.after!.filter((id) => id > 0)))
    const executor = tx && executorOf(tx)
    const send = () => this.#enqueueWorkflow(parts, payloads, executor)
    const ids = await this.#sent(parts[0]!.definition, parts.length, send)
    const jobs = ids.map((id) => ({ id, isNew: true }))
    for (const [at, { definition }] of parts.entries()) this.#tellEnqueued(definition, [jobs[at]!], executor)
    return { id: ids[0]!, jobs }
  }

  async #enqueueWorkflow(
    parts: readonly { definition: AnyDefinition; asked: Asked }[],
    payloads: readonly string[],
    executor: Executor | undefined,
  ): Promise<number[]> {
    const [drawn] = await this.#ledger.run<{ ids: string }>('numbers', [parts.length])
    const ids = drawn!.ids.split(',').map(Number)
    const awaited = new Set<number>()
    const idOf = (id: number) => (id > 0 ? id : ids[-1 - id]!)
    for (const { asked } of parts) for (const id of asked.after!) awaited.add(idOf(id))
    const jobs = parts.map(({ definition, asked }, at) => {
      const more = { workflow: ids[0], awaited: awaited.has(ids[at]!) || undefined }
      const { head } = this.#headOf(definition, { ...asked, after: asked.after!.map(idOf) }, false, more)
      return `${head},"id":${ids[at]},"payload":${payloads[at]}}`
    })
    const values = [`[${jobs.join(',')}]`]
    await (executor
      ? this.#ledger.runIn(executor, 'enqueue_workflow', values)
      : this.#ledger.run('enqueue_workflow', values))
    if (!executor) this.#looseEnds.entering(ids)
    return ids
  }

  /**
   * A workflow as a whole, by its id or that of any of its jobs. Null when there is none, or all of it ended longer ago than
   * the history is kept.
   *
   * @example
   * const { isOver, counts } = (await holdfast.jobs.workflow(id))!
   */
  async workflow(id: number): Promise<WorkflowStatus | null> {
    const rows = await this.#ledger.run<WorkflowRow>('workflow', [checkId(id)])
    return rows.length === 0 ? null : workflowOf(rows)
  }

  /**
   * Works: claims jobs of these definitions and runs them, until it is closed. At once it runs as many as `concurrency`
   * says; it claims a little ahead of what it can do in some hundredths of a second.
   *
   * @example
   * await using worker = holdfast.jobs.work([sendEmail, makeReport], { concurrency: 50 })
   */
  work(definitions: readonly AnyDefinition[], options?: WorkOptions): Worker {
    const { concurrency = 10, queues: given } = readOptions('jobs.work', options, workRules)
    this.#throwIfClosed()
    this.#draining.signal.throwIfAborted()
    if (!Array.isArray(definitions) || definitions.length === 0) {
      throw new UsageError(`Expected a list of definitions made by defineJob, got ${describe(definitions)}`)
    }
    const byKind = new Map<string, AnyDefinition>()
    for (const definition of definitions) {
      checkDefinition(definition)
      if (byKind.has(definition.kind)) throw new UsageError(`Two definitions are named "${definition.kind}"`)
      byKind.set(definition.kind, definition)
    }
    if (this.#claims === undefined) throw new SessionLocksUnavailableError('not-asked-for')
    const queues = [...new Set(given ?? definitions.map(({ queue }) => queue))]
    this.#begun ??= this.#rounds.begin()
    const worker = new Worker({
      ledger: this.#ledger,
      presence: this.#options.presence,
      rounds: this.#rounds,
      claims: this.#claims,
      looseEnds: this.#looseEnds,
      begun: this.#begun,
      number: this.#numbers++,
      hasListener: this.#hasListener,
      definitions: byKind,
      queues: queues.map((queue) => this.#keyOf(queue)),
      queueNames: queues,
      concurrency,
      events: this.#options.events,
      tracing: this.#options.tracing,
      parents: (ids) => this.#parents(ids),
      enqueueChild: (parent, definition, input, options) => this.#enqueueChild(parent, definition, input, options),
    })
    this.#workers.add(worker)
    return worker
  }

  /**
   * Cancels a job. One that waits ends here; one that runs is told by its signal within about a second, and ends when its
   * handler does. False when it has ended already, or never was.
   *
   * @example
   * await holdfast.jobs.cancel(job.id, 'the order was withdrawn')
   */
  async cancel(id: number, reason = 'Cancelled'): Promise<boolean> {
    // It may change its table in the very moment of the question.
    for (let tries = 0; tries < 5; tries++) {
      const [row] = await this.#ledger.run<{ loose: string | null }>('cancel', [checkId(id), clip(reason)])
      if (row) {
        this.#looseEnds.found(row.loose)
        return true
      }
      const status = await this.find(id)
      if (status === null || !['ready', 'running', 'waiting'].includes(status.state)) return false
    }
    return false
  }

  /**
   * Lets a job run again that has ended otherwise than done, or at once, if it waits. False when there is no such job, or
   * when another has its unique key.
   *
   * @example
   * await holdfast.jobs.retry(job.id)
   */
  async retry(id: number): Promise<boolean> {
    const [row] = await this.#ledger.run<{ is_tied: boolean }>('retry', [checkId(id)])
    if (row?.is_tied) this.#looseEnds.entering([id])
    return row !== undefined
  }

  /**
   * Where a job is, why it waits, what its attempts failed of, what came of it. Null when it was never there, or ended
   * longer ago than the history is kept.
   *
   * @example
   * const status = await holdfast.jobs.find(job.id)
   */
  async find(id: number): Promise<JobStatus | null> {
    for (let tries = 0; tries < 2; tries++) {
      const [row] = await this.#ledger.run<StatusRow>('find', [checkId(id)])
      if (!row) continue
      const isWaiting = row.state === 'waiting' || row.state === 'ready'
      const [why] = isWaiting ? await this.#ledger.run<WaitsForRow>('waits_for', [id]) : []
      return statusOf(row, why)
    }
    return null
  }

  /**
   * The result of a job, waiting for its end; undefined when the time is over before. Throws a `JobFailedError` when it
   * ended without one.
   *
   * @example
   * const report = await holdfast.jobs.result(job.id, { wait: '10s' })
   */
  async result<Result = unknown>(id: number, options?: ResultOptions): Promise<Result | undefined> {
    const { wait = 30_000, signal } = readOptions('jobs.result', options, resultRules)
    checkId(id)
    const until = performance.now() + wait
    const giveUp = new AbortController()
    const forgets = [this.#closing.signal, signal].map((one) => whenAborted(one, (reason) => giveUp.abort(reason)))
    try {
      for (let attempt = 0; ; attempt++) {
        giveUp.signal.throwIfAborted()
        const [row] = await this.#ledger.run<Pick<StatusRow, 'state' | 'result' | 'error'>>('ended', [arrayOf([id])])
        if (row?.state === 'done') return row.result === null ? undefined : JSON.parse(row.result)
        if (row) {
          throw new JobFailedError(id, row.state as 'buried', row.error === null ? undefined : JSON.parse(row.error))
        }
        const leftMs = until - performance.now()
        if (leftMs <= 0) return undefined
        await pause(Math.min(leftMs, backoffMs(attempt, 10, 250)), giveUp.signal)
      }
    } finally {
      for (const forget of forgets) forget()
    }
  }

  /**
   * No more jobs of the queue are claimed, by anybody, until it is resumed. Those that run go on.
   *
   * @example
   * await holdfast.jobs.pause('mail')
   */
  async pause(queue: string): Promise<void> {
    await this.#ledger.run('pause', [this.#keyOf(queue), this.#options.namespace, queue, true])
  }

  /**
   * The jobs of a paused queue are claimed again.
   *
   * @example
   * await holdfast.jobs.resume('mail')
   */
  async resume(queue: string): Promise<void> {
    await this.#ledger.run('pause', [this.#keyOf(queue), this.#options.namespace, queue, false])
    for (const worker of this.#workers) worker.resumed()
  }

  /**
   * Lets all buried jobs of a queue run again, with all their attempts before them, but for those whose unique key another
   * has. Answers how many there were.
   *
   * @example
   * await holdfast.jobs.redrive('mail')
   */
  async redrive(queue: string): Promise<number> {
    let all = 0
    for (;;) {
      const jobs = await this.redriveSome(queue)
      all += jobs
      if (jobs === 0) break
    }
    if (all > 0) this.#roundSoon(0)
    return all
  }

  /** @internal A thousand at most. */
  async redriveSome(queue: string): Promise<number> {
    const [row] = await this.#ledger.run<{ jobs: number }>('redrive', [this.#keyOf(queue), 1_000])
    return row!.jobs
  }

  /** @internal The keys of the queues that this instance has used, whether or not they are written down yet. */
  get usedQueues(): readonly string[] {
    return [...this.#queueKeys.values()]
  }

  /** @internal */
  keysOf(queues: readonly string[]): string {
    return arrayOf(queues.map((queue) => this.#keyOf(queue)))
  }

  /** @internal What the fleet says of jobs. */
  hear(what: string, detail: string): void {
    if (what === 'jobs-busy') {
      this.#rounds.busy()
      return
    }
    const life = this.#options.presence.life?.number
    if (what === 'jobs-due') {
      if (detail === String(life)) this.#rounds.call()
      return
    }
    if (what === 'jobs-cancel') {
      if (detail === String(life)) for (const worker of this.#workers) worker.cancelled()
      return
    }
    const called = new Set(detail.split(','))
    let isMine = false
    for (const worker of this.#workers) {
      if (!called.has(`${life}.${worker.number}`)) continue
      isMine = true
      worker.wake()
    }
    // What was enqueued may have to wait, and somebody must know how long.
    if (isMine) this.#rounds.soon(50)
  }

  /** @internal Claims no more jobs. Enqueuing goes on. */
  async drain(withinMs: number): Promise<void> {
    this.#draining.abort(new InstanceDrainingError())
    await Promise.all([...this.#workers].map((worker) => worker.close(withinMs)))
  }

  /** @internal */
  async close(): Promise<void> {
    this.#closing.abort(new ClosedError('This instance'))
    await Promise.all([...this.#workers].map((worker) => worker.close()))
    await this.#begun
    await this.#looseEnds.close()
    await this.#rounds.close()
  }

  /** Somebody has to look in so long. Who does not work leaves it to those who do. */
  #roundSoon(ms: number): void {
    if (this.#begun) this.#rounds.soon(ms)
  }

  get #hasListener(): boolean {
    return this.#options.anchor !== undefined
  }

  /** What does not exist yet cannot be waited for; so nobody can wait for himself. */
  async #checkAfter(ids: readonly number[]): Promise<void> {
    const largest = Math.max(0, ...ids)
    if (largest <= this.#lastNumber) return
    const [row] = await this.#ledger.run<{ last_value: string }>('last_number', [])
    this.#lastNumber = Number(row!.last_value)
    if (largest <= this.#lastNumber) return
    throw new UsageError(
      `Expected after to name jobs that were enqueued, got ${largest}`,
      `The last job that was enqueued has the id ${this.#lastNumber} at most.`,
    )
  }

  #throwIfClosed(): void {
    this.#closing.signal.throwIfAborted()
  }

  #keyOf(queue: string): string {
    const known = this.#queueKeys.get(queue)
    if (known) return known
    const { namespace } = this.#options
    const { key } = hashedKey(namespace, `queue/${checkName(queue, 'queue')}`)
    this.#queueKeys.set(queue, key)
    // For people; a job needs no row there, so nobody waits for it.
    void this.#ledger.run('know_queue', [key, namespace, queue]).catch(() => this.#queueKeys.delete(queue))
    return key
  }

  async #parents(ids: readonly number[]): Promise<JobParent[]> {
    if (ids.length === 0) return []
    const rows = await this.#ledger.run<Pick<StatusRow, 'id' | 'kind' | 'state' | 'result' | 'error'>>('states', [
      arrayOf(ids),
    ])
    const byId = new Map(rows.map((row) => [Number(row.id), row]))
    return ids.map((id) => {
      const row = byId.get(id)
      if (!row) return { id, kind: undefined, state: 'forgotten', result: undefined, error: undefined }
      const { kind, state, result, error } = row
      return {
        id,
        kind,
        state,
        result: result === null ? undefined : JSON.parse(result),
        error: error === null ? undefined : JSON.parse(error),
      }
    })
  }

  /** A job of a handler, by the transaction in which the end of its attempt is recorded. Closing does not keep it from it. */
  async #enqueueChild(parent: Run, definition: AnyDefinition, input: unknown, options: ChildOptions | undefined) {
    const asked = readOptions('job.enqueue', options, childRules)
    return this.#enqueueOne(definition, input, asked, executorOf(parent.tx), { workflow: parent.job.ties?.workflow })
  }

  #enqueueOne(
    definition: AnyDefinition,
    input: unknown,
    asked: Asked,
    tx: Executor | undefined,
    more?: Ties,
  ): Promise<JobRef> {
    if (!this.#options.tracing.tracer) return this.#enqueueNow(definition, input, asked, tx, more)
    return this.#sent(definition, 1, () => this.#enqueueNow(definition, input, asked, tx, more))
  }

  async #sent<T>(definition: AnyDefinition, count: number, send: () => Promise<T>): Promise<T> {
    const { tracer } = this.#options.tracing
    if (!tracer) return send()
    checkDefinition(definition)
    const { queue, kind } = definition
    return tracer.around('job send', { queue, kind, count }, send)
  }

  #tellEnqueued({ kind, queue }: AnyDefinition, refs: readonly JobRef[], tx: Executor | undefined): void {
    const tell = this.#options.events.to('job.enqueued')
    if (!tell) return
    const ids = refs.flatMap(({ id, isNew }) => (isNew ? [id] : []))
    // One whose key another has is none.
    if (ids.length > 0) tell({ kind, queue, ids, inTransaction: tx !== undefined })
  }

  #toldOne(definition: AnyDefinition, ref: JobRef, tx: Executor | undefined): JobRef {
    if (this.#options.events.to('job.enqueued')) this.#tellEnqueued(definition, [ref], tx)
    return ref
  }

  async #enqueueNow(
    definition: AnyDefinition,
    input: unknown,
    asked: Asked,
    tx: Executor | undefined,
    more?: Ties,
  ): Promise<JobRef> {
    const { head, way, slotOf } = this.#headOf(definition, asked, false, more)
    const payload = await this.#payloadOf(definition, input)
    if (asked.after) await this.#checkAfter(asked.after)
    if (slotOf) {
      const one = { payload, ...slotOf(input) }
      if (tx) return this.#toldOne(definition, (await this.#unique.many([one], tx))[0]!, tx)
      const ref = await this.#unique.one(one)
      if (way === 'enqueue_tied') this.#looseEnds.entering([ref.id])
      return this.#toldOne(definition, ref, tx)
    }
    if (tx === undefined) {
      const id = await this.#enqueuing.one({ head, payload }, way)
      return this.#toldOne(definition, { id, isNew: true }, tx)
    }
    const [id] = await this.#enqueuing.many(head, [payload], way, tx)
    return this.#toldOne(definition, { id: id!, isNew: true }, tx)
  }

  /** All that jobs with these options have in common, as the beginning of a JSON object; and what makes each unique. */
  #headOf(definition: AnyDefinition, asked: Asked, many: boolean, more?: Ties) {
    checkDefinition(definition)
    const { delay, runAt, priority = 0, unique } = asked
    if (delay !== undefined && runAt !== undefined) throw new UsageError('Expected delay or runAt, got both')
    const { queue, kind, maxCrashes } = definition
    let head = `{"queue":${this.#keyOf(queue)},"kind":${JSON.stringify(kind)},"priority":${priority},"max_crashes":${maxCrashes}`
    if (delay !== undefined) head += `,"delay_ms":${Math.ceil(delay)}`
    if (runAt !== undefined) head += `,"run_at":"${runAt.toISOString()}"`
    const ties = tiesOf(definition, asked, more)
    const trace = this.#options.tracing.tracer?.carry()
    if (trace !== undefined) head += `,"ties":${JSON.stringify({ ...ties, trace })}`
    else if (ties) head += `,"ties":${JSON.stringify(ties)}`
    // Nothing has to be looked after for a job that only carries its trace, unless it has a key beside.
    const isTied = ties !== undefined || (trace !== undefined && unique !== undefined)
    const way: Way = isTied ? 'enqueue_tied' : delay !== undefined || runAt !== undefined ? 'enqueue_later' : 'enqueue'
    if (unique === undefined) return { head, way }
    const uniqueOf = readUnique(unique, delay !== undefined || runAt !== undefined, many)
    const slotOf = (input: unknown) => {
      const { key, json } = uniqueOf(input)
      return { head: `${head},"unique":${json}}`, slot: `${queue}\0${kind}\0${key}` }
    }
    return { head, way, slotOf }
  }

  /** The input as it is written down: as it was given, because what a schema makes of it is made again before the run. */
  #payloadOf(definition: AnyDefinition, input: unknown): string | Promise<string> {
    const checked = validated(definition, input)
    const write = () => writePayload(input, 'an input') ?? 'null'
    return checked instanceof Promise ? checked.then(write) : write()
  }
}

function idsOf(given: unknown): number[] | undefined {
  if (!Array.isArray(given)) return undefined
  const ids = given.map((one: unknown) => (typeof one === 'object' ? (one as JobRef | null)?.id : one))
  return ids.every((id) => Number.isSafeInteger(id) && (id as number) > 0) ? [...new Set(ids as number[])] : undefined
}

function checkDefinition(given: unknown): asserts given is AnyDefinition {
  const { kind, run } = (given ?? {}) as Partial<AnyDefinition>
  if (typeof kind === 'string' && typeof run === 'function') return
  throw new UsageError(`Expected a definition made by defineJob, got ${describe(given)}`)
}

function checkId(given: unknown): number {
  if (Number.isSafeInteger(given) && (given as number) > 0) return given as number
  throw new UsageError(`Expected the id of a job, a whole number, got ${describe(given)}`)
}
