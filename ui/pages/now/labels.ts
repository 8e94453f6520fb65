// Labels for the wait graph.
import { formatDuration } from '../../format.js'
import type { ViewData } from '../../wire.js'

export type WaitGraphData = ViewData<'graph'>
export type ContendedName = WaitGraphData['names'][number]
export type Holding = ContendedName['holders'][number]
export type Participant = WaitGraphData['participants'][number]
export type Remedy = Holding['remedies'][number]

/** Returns the label of a name, such as `lock invoice:42`, `limit gpu (8 of 8)` or `job 12 (send-email)`. */
export function nameLabel({ kind, key, label, queue, max, inUse }: ContendedName): string {
  if (kind === 'job') return `job ${key} (${label})`
  const queueText = kind === 'lane' && queue !== null ? ` of queue ${queue}` : ''
  const places = max === null ? '' : ` (${inUse} of ${max})`
  return `${kind} ${label ?? `key ${key}`}${queueText}${places}`
}

/** Returns the label of a participant, such as `worker-3`, `job 12 (send-email)` or `psql session 4711`. */
export function participantLabel({ kind, instance, instanceName, application, user, pids, job }: Participant): string {
  if (kind === 'no-holder') return 'no holder'
  if (job) return `job ${job.id} (${job.kind})`
  if (instance !== null) return instanceName ?? instance
  return `${application || user || 'unknown'} session ${pids.join(', ')}`
}

/** Returns a short description of how a participant holds a name. */
export function holdText({ how, mode, weight, freeInMs }: Holding): string {
  const leftText = formatDuration(freeInMs ?? 0)
  return {
    lock: mode === 'shared' ? 'held shared' : 'held',
    lease: 'leased',
    'min-hold': `held for ${leftText} more,`,
    rate: `next call allowed in ${leftText}`,
    permit: weight === 1 ? 'permit' : `${weight} permits`,
    place: 'place',
    job: 'running',
  }[how]
}
