import type { Change, ChangeKind } from './changes.js'

/** A change as the observer returns it, or as a browser receives it. */
export type ChangeFacts = Pick<
  Change,
  'kind' | 'subjects' | 'count' | 'detail' | 'errorName' | 'instance' | 'instanceName'
>

const bad: ReadonlySet<ChangeKind> = new Set([
  'instances-lost',
  'jobs-failed',
  'schedule-failed',
  'schedule-skipped',
  'server-restarted',
])

/** Returns whether a change is a problem. */
export function isBadChange({ kind, errorName }: Pick<ChangeFacts, 'kind' | 'errorName'>): boolean {
  return bad.has(kind) || (kind === 'act' && errorName !== null)
}

/** Describes a change in one line, such as `3 instances joined: web-1, web-2, web-3`. */
export function changeText(change: ChangeFacts): string {
  const { kind, subjects, count, detail, errorName, instance, instanceName } = change
  const [subject = ''] = subjects
  const details = detail ? `: ${detail}` : ''
  const error = errorName ? `: ${errorName}${detail ? `: ${detail}` : ''}` : details
  const times = count > 1 ? `${count.toLocaleString('en')} ` : ''
  switch (kind) {
    case 'instances-joined':
      return `${instancesText(change)} joined`
    case 'instances-closed':
      return `${instancesText(change)} closed`
    case 'instances-drained':
      return `${instancesText(change)} closed after draining`
    case 'instances-lost':
      return `${instancesText(change)} lost: no clean shutdown`
    case 'instance-reconnected':
      return `instance ${subject} reconnected: its database session was lost${detail ? ` (${detail})` : ''}`
    case 'deployed':
      return `version ${subject} deployed`
    case 'leader-changed':
      return `election ${subject}: ${instanceName ?? `instance ${instance}`} is the leader`
    case 'schedule-added':
      return `schedule ${subject} added${details}`
    case 'schedule-changed':
      return `schedule ${subject} changed${details}`
    case 'schedule-paused':
      return `schedule ${subject} paused`
    case 'schedule-failed':
      return `schedule ${subject} failed${count > 1 ? ` ${times}times` : ''}${error}`
    case 'schedule-skipped':
      return `schedule ${subject} skipped ${count === 1 ? 'a run' : `${times}runs`}${details}`
    case 'queue-added':
      return `queue ${subject} added`
    case 'queue-paused':
      return `queue ${subject} paused`
    case 'jobs-failed':
      return `${count === 1 ? 'a job' : `${times}jobs`} of kind ${subject} failed${error}`
    case 'server-restarted':
      return 'the database server restarted'
    case 'act':
      return `${subject}: ${detail}${errorName ? ` (${errorName})` : ''}`
  }
}

function instancesText({ subjects, count }: ChangeFacts): string {
  const names = subjects.join(', ')
  if (count === 1) return `instance ${names}`
  return `${count.toLocaleString('en')} instances (${names}${count > subjects.length ? ', …' : ''})`
}
