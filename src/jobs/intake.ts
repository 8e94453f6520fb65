import {
  describe,
  type Events,
  type JobMeta,
  type JobToEnqueue,
  listOf,
  type MiddlewareStack,
  readOptions,
  type TracerSlot,
  UsageError,
} from '../base/index.js'
import { type CallerTransaction, type Executor, executorOf, type HandlerTransaction } from '../postgres/index.js'
import { checkDefinition, validated } from './define.js'
import type { JobDefinition } from './definition.js'
import type { ChildOptions } from './enqueue-options.js'
import {
  checkDeadline,
  childRules,
  type EnqueueManyOptions,
  type EnqueueOptions,
  enqueueRules,
  linksOf,
  type ParsedOptions,
} from './enqueue-options.js'
import { type EnqueueClass, Enqueuing, type FindIdleWorker, valuesOf } from './enqueuing.js'
import type { FollowUps } from './follow-ups.js'
import { enqueueImported, type ImportedJob } from './import/enqueue.js'
import { type ForeignJob, foreignHead } from './import/source.js'
import type { JobRef } from './job-ref.js'
import type { Links } from './links.js'
import { noMeta, writeMeta } from './meta.js'
import { writePayload } from './payload.js'
import type { Queues } from './queues.js'
import type { JobStore } from './store.js'
import { readUnique, UniqueEnqueuing } from './unique.js'
import type { UnservedCheck } from './unserved.js'
import { type PlannedJob, planOf } from './workflow-plan.js'
import type { WorkflowBuilder, WorkflowRef } from './workflows.js'

/** Attempt whose handler enqueues a job. */
interface ParentAttempt {
  readonly tx: HandlerTransaction
  readonly job: { readonly links: Links | null }
}

interface IntakeOptions {
  readonly events: Events
  readonly tracing: TracerSlot
  readonly middleware: MiddlewareStack
  readonly unserved: UnservedCheck
  readonly findIdleWorker: FindIdleWorker
}

/** Maximum number of jobs per statement. The next constant limits the number of characters. */
const maxPerStatement = 5_000
const maxBytes = 4_000_000

/**
 * Enqueues jobs. Validates the call, serializes each job, runs the statement, and emits `job.enqueued`. A serialized
 * job consists of a head, which several jobs can share, and a payload.
 */
export class Intake {
  readonly #store: JobStore
  readonly #queues: Queues
  readonly #followUps: FollowUps
  readonly #events: Events
  readonly #tracing: TracerSlot
  readonly #middleware: MiddlewareStack['enqueue']
  readonly #unserved: UnservedCheck
  readonly #enqueuing: Enqueuing
  readonly #unique: UniqueEnqueuing
  readonly #budgetKeyOf: (budget: string) => string
  /** Largest job ID that is known to have been assigned. */
  #lastNumber = 0

  constructor(
    store: JobStore,
    queues: Queues,
    followUps: FollowUps,
    { events, tracing, middleware, unserved, findIdleWorker }: IntakeOptions,
  ) {
    this.#store = store
    this.#queues = queues
    this.#followUps = followUps
    this.#events = events
    this.#tracing = tracing
    this.#middleware = middleware.enqueue
    this.#unserved = unserved
    this.#budgetKeyOf = (budget) => queues.budgetKeyOf(budget)
    this.#enqueuing = new Enqueuing(store, followUps, findIdleWorker)
    this.#unique = new UniqueEnqueuing(store)
  }

  one(definition: JobDefinition, input: unknown, options: EnqueueOptions | undefined): Promise<JobRef> {
    const { tx, ...asked } = readOptions('jobs.enqueue', options, enqueueRules)
    const send = (input: unknown, asked: ParsedOptions) => {
      const enqueue = () => this.#one(definition, input, asked, tx && executorOf(tx))
      return this.#tracing.tracer ? this.#sent(definition, 1, enqueue) : enqueue()
    }
    return this.#middleware ? this.#wrapOne(definition, input, asked, send) : send(input, asked)
  }

  /** Enqueues a job from a handler, in the transaction that records the attempt's outcome. */
  async child(
    parent: ParentAttempt,
    definition: JobDefinition,
    input: unknown,
    options: ChildOptions | undefined,
  ): Promise<JobRef> {
    const asked = readOptions('job.enqueue', options, childRules)
    const { workflow } = parent.job.links ?? {}
    const tx = executorOf(await parent.tx)
    const send = (input: unknown, asked: ParsedOptions) =>
      this.#sent(definition, 1, () => this.#one(definition, input, asked, tx, { workflow }))
    return this.#middleware ? this.#wrapOne(definition, input, asked, send) : send(input, asked)
  }

  async many<Input>(
    definition: JobDefinition,
    given: readonly Input[],
    options: EnqueueManyOptions<Input> | undefined,
  ): Promise<JobRef[]> {
    const { tx, ...asked } = readOptions('jobs.enqueueMany', options, enqueueRules)
    const inputs = listOf(given)
    if (!inputs) throw new UsageError(`Expected a list of inputs, got ${describe(given)}`)
    const send = (changed?: readonly JobToEnqueue[]) =>
      this.#sent(definition, inputs.length, () => this.#many(definition, inputs, changed, asked, tx && executorOf(tx)))
    if (!this.#middleware || inputs.length === 0) return send()
    const jobs = await this.#describe(inputs.map((input) => ({ definition, input, asked })))
    return [...(await this.#middleware(jobs, send))]
  }

  async workflow(
    build: (workflow: WorkflowBuilder) => void,
    options: { tx?: CallerTransaction | undefined } | undefined,
  ): Promise<WorkflowRef> {
    const { tx } = readOptions('jobs.enqueueWorkflow', options, { tx: enqueueRules.tx })
    const plan = planOf(build)
    const send = (jobs: readonly PlannedJob[]) =>
      this.#sent(plan[0]!.definition, plan.length, () => this.#workflow(jobs, tx && executorOf(tx)))
    const jobs = this.#middleware
      ? await this.#middleware(await this.#describe(plan), (changed) =>
          send(plan.map((job, at) => ({ ...job, ...contentOf(job.asked, changed[at]!) }))),
        )
      : await send(plan)
    return { id: jobs[0]!.id, jobs }
  }

  /**
   * Enqueues imported jobs in the transaction that removes the jobs from the other library. Skips jobs whose unique key
   * is in use. Returns the enqueued jobs.
   */
  enqueueImported(jobs: readonly ForeignJob[], queue: string, from: string, tx: Executor): Promise<ForeignJob[]> {
    const key = this.#queues.keyOf(queue)
    const all = jobs.map((job): ImportedJob => {
      return { job, head: foreignHead(job, key, from), payload: job.input ?? 'null', meta: undefined }
    })
    return enqueueImported({ enqueuing: this.#enqueuing, unique: this.#unique, wrap: this.#middleware }, all, queue, tx)
  }

  /**
   * Validates and serializes a job that the database enqueues later, for a tick of a stored schedule. No middleware runs, because no
   * instance takes part in the enqueueing.
   */
  async prepare(definition: JobDefinition, input: unknown, priority: number): Promise<{ head: string; input: string }> {
    checkDefinition(definition)
    await validated(definition, input)
    const links = linksOf(definition, {}, this.#budgetKeyOf)
    const head = `${this.#plainHead(definition, priority)}${links ? `,"links":${JSON.stringify(links)}` : ''}}`
    return { head, input: writePayload(input, 'an input') ?? 'null' }
  }

  /** Passes a single job through the middleware. */
  async #wrapOne(
    definition: JobDefinition,
    input: unknown,
    asked: ParsedOptions,
    send: (input: unknown, asked: ParsedOptions) => Promise<JobRef>,
  ): Promise<JobRef> {
    const jobs = await this.#describe([{ definition, input, asked }])
    const refs = await this.#middleware!(jobs, async ([job]) => {
      const changed = contentOf(asked, job!)
      return [await send(changed.input, changed.asked)]
    })
    return refs[0]!
  }

  /** Validates the inputs, and describes the jobs for the middleware. */
  async #describe(
    jobs: readonly { definition: JobDefinition; input: unknown; asked: ParsedOptions }[],
  ): Promise<JobToEnqueue[]> {
    const described: JobToEnqueue[] = []
    for (const { definition, input, asked } of jobs) {
      checkDefinition(definition)
      const { kind, queue } = definition
      await validated(definition, input)
      described.push({ kind, queue, input, meta: asked.meta ?? noMeta })
    }
    return described
  }

  async #one(
    definition: JobDefinition,
    input: unknown,
    asked: ParsedOptions,
    tx: Executor | undefined,
    more?: Links,
  ): Promise<JobRef> {
    const { head, waits, slotOf } = this.#headOf(definition, asked, false, more)
    const meta = writeMeta(asked.meta)
    const payload = await this.#payloadOf(definition, input)
    if (asked.after) await this.#checkAfter(asked.after)
    let ref: JobRef
    if (slotOf) {
      const one = { payload, meta, ...slotOf(input) }
      ref = tx ? (await this.#unique.many([one], tx))[0]! : await this.#unique.one(one)
      if (waits === 'linked' && !tx) this.#followUps.admit([ref.id])
    } else if (tx) {
      const [id] = await this.#enqueuing.many(head, [payload], [meta], waits, tx)
      ref = { id: id!, isNew: true }
    } else {
      ref = { id: await this.#enqueuing.single[waits].add({ definition, head, payload, meta }), isNew: true }
    }
    this.#emitEnqueued(definition, [ref], tx)
    return ref
  }

  async #many(
    definition: JobDefinition,
    inputs: readonly unknown[],
    changed: readonly JobToEnqueue[] | undefined,
    asked: ParsedOptions,
    executor: Executor | undefined,
  ): Promise<JobRef[]> {
    const { head, waits, slotOf } = this.#headOf(definition, asked, true)
    const meta = writeMeta(asked.meta)
    const metas = changed ? changed.map((job) => writeMeta(job.meta)) : inputs.map(() => meta)
    // Validates all inputs before enqueueing the first job.
    const payloads: string[] = []
    for (const [at, input] of inputs.entries()) {
      const payload = this.#payloadOf(definition, changed ? changed[at]!.input : input)
      payloads.push(payload instanceof Promise ? await payload : payload)
    }
    const slots = slotOf && inputs.map(slotOf)
    if (asked.after) await this.#checkAfter(asked.after)
    const refs: JobRef[] = []
    for (let from = 0; from < payloads.length; ) {
      let to = from
      for (let bytes = 0; to < payloads.length && to - from < maxPerStatement && bytes < maxBytes; to++) {
        bytes += payloads[to]!.length
      }
      const together = payloads.slice(from, to)
      if (slots) {
        const keyed = together.map((payload, at) => ({ payload, meta: metas[from + at], ...slots[from + at]! }))
        const unique = await this.#unique.many(keyed, executor)
        if (waits === 'linked' && !executor) this.#followUps.admit(unique.map(({ id }) => id))
        refs.push(...unique)
      } else {
        const ids = await this.#enqueuing.many(head, together, metas.slice(from, to), waits, executor)
        for (const id of ids) refs.push({ id, isNew: true })
      }
      from = to
    }
    this.#emitEnqueued(definition, refs, executor)
    return refs
  }

  async #workflow(plan: readonly PlannedJob[], executor: Executor | undefined): Promise<JobRef[]> {
    const metas = plan.map(({ asked }) => writeMeta(asked.meta))
    const payloads = await Promise.all(plan.map(({ definition, input }) => this.#payloadOf(definition, input)))
    await this.#checkAfter(plan.flatMap(({ asked }) => asked.after))
    const [drawn] = await this.#store.run<{ ids: string }>('draw_ids', [plan.length])
    const ids = drawn!.ids.split(',').map(Number)
    const heads = plan.map(({ definition, asked, behind }, at) => {
      const after = [...asked.after, ...behind.map((place) => ids[place]!)]
      const { head } = this.#headOf(definition, { ...asked, after }, false, { workflow: ids[0] })
      return `${head},"id":${ids[at]},"after_input":${at},"last_input":${at + 1}}`
    })
    const values = valuesOf(heads, payloads, metas, executor === undefined)
    await (executor ? this.#store.runIn(executor, 'enqueue', values) : this.#store.run('enqueue', values))
    if (!executor) this.#followUps.admit(ids)
    const jobs = ids.map((id) => ({ id, isNew: true }))
    for (const [at, { definition }] of plan.entries()) this.#emitEnqueued(definition, [jobs[at]!], executor)
    return jobs
  }

  /**
   * Returns a job's head and what the job waits for. Jobs with the same options share a head, which
   * is the start of a JSON object. With `unique`, also returns a function that returns the unique key for an input.
   */
  #headOf(definition: JobDefinition, asked: ParsedOptions, many: boolean, more?: Links) {
    checkDefinition(definition)
    const { delay, runAt, startBy, priority = 0, unique } = asked
    if (delay !== undefined && runAt !== undefined) throw new UsageError('Expected either delay or runAt, got both')
    // A job with a delay of 0 becomes ready immediately, without waiting for maintenance.
    const isLater = (delay ?? 0) > 0 || runAt !== undefined
    const { queue, kind } = definition
    let head = this.#plainHead(definition, priority)
    if (delay) head += `,"delay_ms":${Math.ceil(delay)}`
    if (runAt !== undefined) head += `,"run_at":"${runAt.toISOString()}"`
    checkDeadline(startBy, delay, runAt)
    if (typeof startBy === 'number') head += `,"start_by_ms":${Math.ceil(startBy)}`
    else if (startBy) head += `,"start_by":"${startBy.toISOString()}"`
    const links = linksOf(definition, asked, this.#budgetKeyOf, more)
    const trace = this.#tracing.tracer?.traceparent()
    if (trace !== undefined) head += `,"links":${JSON.stringify({ ...links, trace })}`
    else if (links) head += `,"links":${JSON.stringify(links)}`
    const isLinked = links?.lane || links?.budgets || links?.group || links?.after
    const waits: EnqueueClass = isLinked ? 'linked' : isLater ? 'delayed' : 'ready'
    if (unique === undefined) {
      const needsOnlyBudgets =
        links?.budgets && !links.lane && !links.group && !links.after && !isLater && startBy === undefined
      return { head, waits: needsOnlyBudgets ? ('budgeted' as const) : waits }
    }
    const uniqueOf = readUnique(unique, isLater, many)
    const slotOf = (input: unknown) => {
      const { key, json } = uniqueOf(input)
      return { head: `${head},"unique":${json}}`, slot: `${queue}\0${kind}\0${key}` }
    }
    return { head, waits, slotOf }
  }

  #plainHead({ queue, kind, maxCrashes }: JobDefinition, priority: number): string {
    return `{"queue":${this.#queues.keyOf(queue)},"kind":${JSON.stringify(kind)},"priority":${priority},"max_crashes":${maxCrashes}`
  }

  /**
   * Serializes the original input instead of the transformed input, because the schema is applied again before the job
   * runs. With middleware, `#describe` has validated the original input, and `input` may be a changed input.
   */
  #payloadOf(definition: JobDefinition, input: unknown): string | Promise<string> {
    const write = () => writePayload(input, 'an input') ?? 'null'
    if (this.#middleware) return write()
    const checked = validated(definition, input)
    return checked instanceof Promise ? checked.then(write) : write()
  }

  /** Checks that the jobs in `after` exist. This check also prevents a job from waiting for itself. */
  async #checkAfter(ids: readonly number[]): Promise<void> {
    const largest = Math.max(0, ...ids)
    if (largest <= this.#lastNumber) return
    const [row] = await this.#store.run<{ last_value: string }>('last_id', [])
    this.#lastNumber = Number(row!.last_value)
    if (largest <= this.#lastNumber) return
    throw new UsageError(
      `Expected the \`after\` option to contain the ids of enqueued jobs, got ${largest}`,
      `The largest job id is currently ${this.#lastNumber}.`,
    )
  }

  async #sent<T>(definition: JobDefinition, count: number, send: () => Promise<T>): Promise<T> {
    const { tracer } = this.#tracing
    if (!tracer) return send()
    checkDefinition(definition)
    const { queue, kind } = definition
    return tracer.withSpan('job send', { queue, kind, count }, send)
  }

  #emitEnqueued(definition: JobDefinition, refs: readonly JobRef[], tx: Executor | undefined): void {
    this.#unserved.noteEnqueued(definition)
    const { kind, queue } = definition
    const emit = this.#events.emitter('job.enqueued')
    if (!emit) return
    const ids = refs.flatMap(({ id, isNew }) => (isNew ? [id] : []))
    // Emits no event if all jobs already existed.
    if (ids.length > 0) emit({ kind, queue, ids, inTransaction: tx !== undefined })
  }
}

/** Returns a job's input and options after the middleware. */
function contentOf<Asked extends { readonly meta?: JobMeta | undefined }>(asked: Asked, { input, meta }: JobToEnqueue) {
  return { input, asked: { ...asked, meta } }
}
