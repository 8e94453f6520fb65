import type { Holdfast, JobDefinition } from '../index.js'
import { TestingContext } from './context.js'

/** A job that was enqueued and has not begun. */
export interface EnqueuedJob<Input = unknown> {
  readonly id: number
  readonly kind: string
  readonly queue: string
  readonly input: Input
  readonly priority: number
  /** From when on it may run; undefined when that is now. */
  readonly runAt: Date | undefined
  /** The same, counted from when it was enqueued, to the hundredth of a second; 0 when it may run at once. */
  readonly delayMs: number
}

/**
 * What is enqueued and has not begun, in the order in which it was enqueued: all of the namespace, or the jobs of one
 * definition. For assertions without a worker.
 *
 * @example
 * await signUp({ email: 'ada@example.com' })
 * expect(await enqueued(holdfast, sendEmail)).toMatchObject([{ input: { to: 'ada@example.com' }, delayMs: 600_000 }])
 */
export async function enqueued<Input = unknown>(
  holdfast: Holdfast,
  // biome-ignore lint/suspicious/noExplicitAny: whatever its handler takes and returns
  definition?: JobDefinition<Input, any, any>,
): Promise<EnqueuedJob<Input>[]> {
  const context = new TestingContext(holdfast)
  const rows = await context.run<Row>('enqueued', [await context.queues(), definition?.kind ?? null])
  return rows.map(({ id, kind, queue, payload, priority, enqueued_ms, run_at_ms }) => ({
    id: Number(id),
    kind,
    queue,
    input: JSON.parse(payload),
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
  priority: number
  enqueued_ms: number
  run_at_ms: number | null
}
