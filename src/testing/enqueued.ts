import type { Holdfast, JobDefinition, JobMeta } from '../index.js'
import { TestingContext } from './context.js'

/** Job that was enqueued and has not started. */
export interface EnqueuedJob<Input = unknown> {
  readonly id: number
  readonly kind: string
  readonly queue: string
  readonly input: Input
  /** JSON object that was stored with the job. Empty if there is none. */
  readonly meta: JobMeta
  readonly priority: number
  /** Earliest start. Undefined if the job may run now. */
  readonly runAt: Date | undefined
  /** Delay between the enqueue and the earliest start, rounded to 10 ms. 0 if the job may run now. */
  readonly delayMs: number
}

/**
 * Returns the enqueued jobs that have not started, in the order in which they were enqueued. Returns all such jobs in
 * the namespace, or only those with one definition. Useful for assertions without a worker.
 *
 * @example
 * await signUp({ email: 'ada@example.com' })
 * expect(await enqueued(holdfast, sendEmail)).toMatchObject([{ input: { to: 'ada@example.com' }, delayMs: 600_000 }])
 */
export async function enqueued<Input = unknown>(
  holdfast: Holdfast,
  definition?: JobDefinition<Input>,
): Promise<EnqueuedJob<Input>[]> {
  const context = new TestingContext(holdfast)
  const rows = await context.run<Row>('enqueued', [await context.queues(), definition?.kind ?? null])
  return rows.map(({ id, kind, queue, payload, meta, priority, enqueued_ms, run_at_ms }) => ({
    id: Number(id),
    kind,
    queue,
    input: JSON.parse(payload),
    meta: meta === null ? {} : JSON.parse(meta),
    priority,
    runAt: run_at_ms === null ? undefined : new Date(run_at_ms),
    delayMs: run_at_ms === null ? 0 : Math.max(0, Math.round((run_at_ms - enqueued_ms) / 10) * 10),
  }))
}

interface Row {
  id: string
  kind: string
  queue: string
  payload: string
  meta: string | null
  priority: number
  enqueued_ms: number
  run_at_ms: number | null
}
