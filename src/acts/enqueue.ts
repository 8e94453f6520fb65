import { schemaDifference } from '../base/index.js'
import { defineJob } from '../index.js'
import type { ObservedJobKind, Observer } from '../observe/index.js'
import {
  type ActContext,
  act,
  type Consequence,
  inapplicable,
  joinSentences,
  type Outcome,
  otherNamespaceText,
} from './act.js'

/** Job that an operator enqueues by hand. */
export interface ManualJob {
  readonly namespace: string
  readonly queue: string
  readonly kind: string
  /** Input as JSON text. */
  readonly input: string
  readonly runAt?: Date | undefined
  readonly startBy?: Date | undefined
  readonly priority?: number | undefined
}

export const enqueue = {
  'enqueue-job': act({
    needs: { namespace: 'text', queue: 'text', kind: 'text', input: 'json' },
    params: { runAt: 'time', startBy: 'time', priority: { number: [-5, 5] } },
    preview: enqueueConsequence,
    run: enqueueByHand,
  }),
}

/** Previews the job, and compares its input with the JSON schema that workers have registered. */
export async function enqueueConsequence({ observer }: ActContext, job: ManualJob): Promise<Consequence> {
  const { namespace, queue, kind, input, runAt, startBy, priority } = job
  const subject = `job of kind ${kind}`
  const known = await observer.jobKinds.find({ namespace, queue, kind })
  const mismatch = mismatchOf(known, input)
  if (mismatch !== undefined) return inapplicable(subject, mismatchText(kind, mismatch))
  const text = joinSentences(
    `Enqueues a job of kind ${kind} in the queue ${queue} (namespace ${namespace}).`,
    runAt ? `The job may start at ${timeText(runAt)}.` : 'The next free worker claims the job.',
    startBy && `The job expires at ${timeText(startBy)} if no worker has claimed it by then.`,
    await unservedText(observer, job, known),
    known?.inputSchema
      ? 'The input matches the JSON schema of the kind. The worker validates it again.'
      : 'The input is not checked here, because no JSON schema of the kind is registered. The worker validates it.',
  )
  const facts: [string, string | false][] = [
    ['Kind', kind],
    ['Queue', queue],
    ['Namespace', namespace],
    ['Input', input.length > 200 ? `${input.slice(0, 197)}…` : input],
    ['Priority', priority !== undefined && priority !== 0 && String(priority)],
  ]
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== false)
  return { subject, text, applies: true, dangerous: false, facts: shown }
}

export async function enqueueByHand({ observer, asMember }: ActContext, job: ManualJob): Promise<Outcome> {
  const { namespace, queue, kind, input, runAt, startBy, priority } = job
  const known = await observer.jobKinds.find({ namespace, queue, kind })
  const mismatch = mismatchOf(known, input)
  if (mismatch !== undefined) return { done: false, text: mismatchText(kind, mismatch) }
  const definition = defineJob<unknown>(kind, { queue })
  const { id } = await asMember(namespace, ({ jobs }) =>
    jobs.enqueue(definition, JSON.parse(input), { runAt, startBy, priority }),
  )
  const warning = await unservedText(observer, job, known)
  return { done: true, text: joinSentences(`Enqueued job ${id}.`, warning), warning, result: { id }, job: id }
}

async function unservedText(
  { jobKinds }: Observer,
  { namespace, queue, kind }: ManualJob,
  known: ObservedJobKind | null,
): Promise<string | undefined> {
  if (known?.isServed) return undefined
  if (known) return 'No live worker handles this kind, so the job will wait until such a worker starts.'
  return joinSentences(
    `No worker has registered this kind in the queue "${queue}" of the namespace "${namespace}", so the job may wait forever.`,
    otherNamespaceText('kind of job', await jobKinds.list({ queue, kind })),
  )
}

export function mismatchOf(known: ObservedJobKind | null, input: string): string | undefined {
  return known?.inputSchema == null ? undefined : schemaDifference(JSON.parse(input), known.inputSchema)
}

export function mismatchText(kind: string, mismatch: string): string {
  return `The input does not match the JSON schema of the kind ${kind}: ${mismatch}.`
}

export function timeText(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}
