import { type EventName, formatDuration, type HoldfastEvents, isRetryable, memberOf } from '../base/index.js'
import { errorText, nameText, quotedList } from './line.js'
import type { LogLevel } from './logger.js'

/** Line for an event. */
export interface Line {
  readonly level: LogLevel
  /** Kind of message. The number of lines is limited for each topic. */
  readonly topic: string
  readonly text: string
  /** Error that the event reports. Wrapped, because a handler can throw any value, even undefined. */
  readonly failure?: { readonly error: unknown }
}

type Describe<Name extends EventName> = (event: HoldfastEvents[Name]) => Line | undefined

/**
 * The events that are logged. Events are not listed if the caller receives the error (`delivery.failed`, `delivery.lost`), or if they are part of
 * normal operation.
 */
export const lines: { readonly [Name in EventName]?: Describe<Name> } = {
  'instance.lost': ({ reason }) => ({
    level: 'warn',
    topic: 'session lost',
    text: `session lost, reconnecting: ${errorText(reason)}`,
    failure: { error: reason },
  }),
  'instance.reconnected': ({ lostForMs }) => ({
    level: 'info',
    topic: 'session regained',
    text: `session regained after ${formatDuration(lostForMs)}; locks and permits held before are lost`,
  }),
  // The line about the lost session is enough for an error that a retry may fix, such as an unreachable server.
  'instance.connect-failed': ({ error }) => (isRetryable(error) ? undefined : failed('cannot connect', error)),
  'instance.name-taken': ({ wanted, name }) => ({
    level: 'warn',
    topic: 'name taken',
    text: `another live instance already uses the ${quotedList('name', [wanted])}, so this instance uses the ${quotedList('name', [name])}`,
  }),
  'lock.lost': ({ names, heldMs, reason }) => {
    // No line, because the `election.lost` event reports the same loss.
    if (names.some((name) => name.startsWith('election/'))) return undefined
    return lost('lock', quotedList('lock', names), heldMs, reason)
  },
  'lease.lost': ({ name, heldMs, reason }) =>
    name.startsWith('election/') ? undefined : lost('lease', quotedList('lease', [name]), heldMs, reason),
  'limit.lost': ({ name, heldMs, reason }) =>
    lost('permit', `permit of ${quotedList('limit', [name])}`, heldMs, reason),
  'election.lost': ({ name, term, ledMs, reason }) =>
    lost('leadership', `leadership of ${quotedList('election', [name])} (term ${term})`, ledMs, reason),
  'election.failed': ({ name, error }) => failed(`${quotedList('campaign', [name])} failed`, error),
  'share.failed': ({ share, error }) => failed(`${quotedList('share', [share])} failed`, error),
  'schedule.failed': ({ name, tick, attempt, error }) => ({
    ...failed(`schedule ${nameText(name)} failed`, error),
    text: `schedule ${nameText(name)} failed (tick ${tick.toISOString()}, attempt ${attempt}): ${errorText(error)}`,
  }),
  'schedule.ended': ({ name, tick, state, durationMs }) =>
    state === 'lost'
      ? {
          level: 'warn',
          topic: `schedule ${nameText(name)} lost`,
          text: `schedule ${nameText(name)} was lost after ${formatDuration(durationMs)} (tick ${tick.toISOString()}): the run will start again in the fleet`,
        }
      : undefined,
  'scheduler.failed': ({ error }) => failed('schedules cannot start', error, levelOf(error)),
  'job.failed': ({ id, kind, attempt, maxAttempts, state, retryInMs, error }) => {
    const job = `job ${nameText(kind)}`
    const count = `attempt ${attempt} of ${maxAttempts}`
    if (state === 'retried') {
      const text = `${job} ${id} failed (${count}, retry in ${formatDuration(retryInMs ?? 0)}): ${errorText(error)}`
      return { level: 'warn', topic: `${job} failed`, text, failure: { error } }
    }
    const why = attempt < maxAttempts ? `${count}, not retryable` : count
    return {
      level: 'error',
      topic: `${job} was buried`,
      text: `${job} ${id} was buried (${why}): ${errorText(error)}`,
      failure: { error },
    }
  },
  'job.ended': ({ id, kind, state, durationMs }) =>
    state === 'lost'
      ? {
          level: 'warn',
          topic: `job ${nameText(kind)} lost`,
          text: `job ${nameText(kind)} ${id} was lost after ${formatDuration(durationMs)}: another attempt will start in the fleet`,
        }
      : undefined,
  'job.crashed': ({ id, kind, crashes }) => ({
    level: 'error',
    topic: `job ${nameText(kind)} was buried`,
    text: `job ${nameText(kind)} ${id} was buried: ${crashes === 1 ? 'its worker' : `${crashes} of its workers`} died while running it`,
  }),
  'job.expired': ({ id, kind, startBy }) => ({
    level: 'warn',
    topic: `job ${nameText(kind)} expired`,
    text: `job ${nameText(kind)} ${id} expired: no worker had a free slot before ${startBy.toISOString()}`,
  }),
  'job.unserved': ({ kind, queue, unserved, jobs, forMs }) => {
    const waiting = jobs === 1 ? '1 job is waiting' : `${jobs} jobs are waiting`
    const who = unserved === 'queue' ? 'no worker serves' : 'no worker has a definition for'
    return {
      level: 'warn',
      topic: `job ${nameText(kind)} unserved`,
      text: `${who} ${quotedList('job kind', [kind])} in ${quotedList('queue', [queue])}: ${waiting}, for up to ${formatDuration(Math.round(forMs / 1_000) * 1_000)}`,
    }
  },
  'worker.failed': ({ queues, error }) =>
    failed(`worker of ${quotedList('queue', queues)} cannot claim jobs`, error, levelOf(error)),
}

/** Names of the events that are logged. */
export const loggedEvents = Object.keys(lines) as EventName[]

function failed(what: string, error: unknown, level: LogLevel = 'error'): Line {
  return { level, topic: what, text: `${what}: ${errorText(error)}`, failure: { error } }
}

function lost(topic: string, what: string, heldMs: number, reason: Error): Line {
  // The reason's message repeats the name. The line shows only the reason's `cause`: the error that ended the session
  // or the lease.
  const cause = memberOf(reason, 'cause') ?? reason
  const text = `${what} was lost after ${formatDuration(heldMs)}: ${errorText(cause)}`
  return { level: 'error', topic: `${topic} lost`, text, failure: { error: reason } }
}

/** A retry may fix a retryable error, so such an error is only a warning. */
function levelOf(error: unknown): LogLevel {
  return isRetryable(error) ? 'warn' : 'error'
}
