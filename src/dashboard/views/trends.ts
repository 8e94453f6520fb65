import { type Change, changeText, isBadChange, markKinds } from '../../observe/index.js'
import type { Redact } from '../redact.js'
import { maxRows, view } from '../view.js'
import { errorDetails } from './jobs.js'

/** Views of the fleet's activity over time. */
export const trends = {
  /** Ended jobs and failed attempts over time, and in total by kind and queue. */
  trends: view({
    intervalMs: 15_000,
    params: { namespace: 'text', queue: 'text', kind: 'text', hours: { number: [1, 48] } },
    async read({ observer, redact }, only) {
      const { kinds, ...found } = await observer.trends(only)
      return {
        ...found,
        kinds: kinds.map(({ lastError, ...kind }) => ({
          ...kind,
          lastError: lastError && {
            job: lastError.job,
            at: lastError.at,
            ...redactError(lastError, kind.kind, redact),
          },
        })),
      }
    },
  }),

  /** Instances and names in each of the last 60 minutes. */
  activity: view({
    intervalMs: 15_000,
    params: { namespace: 'text' },
    read: ({ observer }, only) => observer.activity(only),
  }),

  /**
   * Changes in the fleet, latest first. With `marks`, only the changes that can explain a change in throughput or
   * latency.
   */
  changes: view({
    intervalMs: 5_000,
    params: { namespace: 'text', hours: { number: [1, 48] }, marks: 'flag' },
    async read({ observer, redact }, { namespace, hours, marks }) {
      const kinds = marks ? markKinds : undefined
      const { rows, ...found } = await observer.changes({ namespace, hours, kinds, limit: maxRows })
      return { ...found, rows: rows.map((change) => shownChange(change, redact)) }
    },
  }),
}

function redactError({ name, message }: { name: string | null; message: string | null }, kind: string, redact: Redact) {
  const shown = errorDetails(redact({ name, message }, { what: 'job error', of: kind }))
  return { name: shown.name, message: shown.message }
}

/** Adds the text after `redact` has removed secrets from errors. */
function shownChange(change: Change, redact: Redact) {
  const { kind, at, namespace, subjects, instance, instanceName, job } = change
  const redacted = redactChange(change, redact)
  const text = changeText(redacted)
  return {
    kind,
    at,
    namespace,
    subject: subjects[0] ?? null,
    text,
    isBad: isBadChange(redacted),
    instance,
    instanceName,
    job,
  }
}

function redactChange(change: Change, redact: Redact): Change {
  const { kind, subjects, errorName: name, detail: message } = change
  if (kind !== 'jobs-failed' && kind !== 'schedule-failed') return change
  const what = kind === 'jobs-failed' ? 'job error' : 'run error'
  const shown = errorDetails(redact({ name, message }, { what, of: subjects[0]! }))
  return { ...change, errorName: shown.name, detail: shown.message }
}
