import { type EventName, type HoldfastEvents, isError, memberOf, textOf } from '../base/index.js'

/**
 * The metrics of an instance. One list stands behind OpenTelemetry and the Prometheus text alike, and the reference
 * (docs/reference/metrics.md) is compared with it. Names and units keep to the semantic conventions of OpenTelemetry, those of
 * messaging where they fit. No attribute is ever the name of a lock, a lease, a limit or a key: of those there is no end.
 */
export interface Instrument {
  readonly kind: 'counter' | 'histogram'
  /** `s`, or what is counted, in braces. */
  readonly unit: string
  readonly description: string
  readonly attributes: readonly string[]
}

const system = 'messaging.system'
const destination = 'messaging.destination.name'
const operation = 'messaging.operation.name'
const errorType = 'error.type'

export const instruments = {
  'messaging.client.sent.messages': {
    kind: 'counter',
    unit: '{message}',
    description: 'Number of enqueued jobs',
    attributes: [system, operation, destination, 'holdfast.job.kind'],
  },
  'messaging.process.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Duration of job attempts',
    attributes: [system, operation, destination, 'holdfast.job.kind', 'holdfast.outcome', errorType],
  },
  'holdfast.worker.failures': {
    kind: 'counter',
    unit: '{failure}',
    description: 'Number of errors that prevented a worker from claiming jobs',
    attributes: [errorType],
  },
  'holdfast.schedule.run.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Duration of schedule runs',
    attributes: ['holdfast.schedule.name', 'holdfast.outcome', errorType],
  },
  'holdfast.schedule.run.lateness': {
    kind: 'histogram',
    unit: 's',
    description: 'Delay between a tick and the start of its run',
    attributes: ['holdfast.schedule.name'],
  },
  'holdfast.lock.wait.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that callers waited for locks',
    attributes: ['holdfast.lock.mode', 'holdfast.outcome'],
  },
  'holdfast.lock.hold.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that locks were held',
    attributes: ['holdfast.lock.mode', 'holdfast.outcome'],
  },
  'holdfast.lease.wait.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that callers waited for leases',
    attributes: ['holdfast.outcome'],
  },
  'holdfast.lease.hold.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that leases were held',
    attributes: ['holdfast.outcome'],
  },
  'holdfast.limit.wait.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that callers waited for permits',
    attributes: ['holdfast.outcome'],
  },
  'holdfast.limit.hold.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that permits were held',
    attributes: ['holdfast.outcome'],
  },
  'holdfast.rate.refusals': {
    kind: 'counter',
    unit: '{refusal}',
    description: 'Number of calls that limits.consume refused',
    attributes: [],
  },
  'holdfast.election.term.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Time that this instance was the leader',
    attributes: ['holdfast.election.name', 'holdfast.outcome'],
  },
  'holdfast.election.failures': {
    kind: 'counter',
    unit: '{failure}',
    description: 'Number of errors thrown by functions of campaigns or preventing a candidacy',
    attributes: ['holdfast.election.name', errorType],
  },
  'holdfast.once.answers': {
    kind: 'counter',
    unit: '{answer}',
    description: 'Number of calls of once, by outcome',
    attributes: ['holdfast.outcome'],
  },
  'holdfast.once.run.duration': {
    kind: 'histogram',
    unit: 's',
    description: 'Duration of functions run by once',
    attributes: ['holdfast.outcome', errorType],
  },
  'holdfast.share.changes': {
    kind: 'counter',
    unit: '{change}',
    description: 'Number of resources of shares that this instance gained or released',
    attributes: ['holdfast.share.name', 'holdfast.outcome'],
  },
  'holdfast.share.failures': {
    kind: 'counter',
    unit: '{failure}',
    description: 'Number of errors thrown by functions of shares or preventing participation',
    attributes: ['holdfast.share.name', errorType],
  },
  'holdfast.instance.losses': {
    kind: 'counter',
    unit: '{loss}',
    description: 'Number of times that this instance lost its session, and with it its locks and permits',
    attributes: [errorType],
  },
} as const satisfies Record<string, Instrument>

export type InstrumentName = keyof typeof instruments

export type Attributes = Record<string, string>

/** Where measurements go: to a meter of OpenTelemetry, or into the text for Prometheus. */
export type Measure = (name: InstrumentName, value: number, attributes: Attributes) => void

/** What follows from each event. */
type EventMeasurements = { readonly [Name in EventName]?: (event: HoldfastEvents[Name], measure: Measure) => void }

const second = 1_000

/** By what failures are told apart: a code, or else the name of the error's class. */
export function errorTypeOf(error: unknown): string {
  if (!isError(error)) return '_OTHER'
  const code = memberOf(error, 'code')
  return textOf(typeof code === 'string' ? code : memberOf(error, 'name'))
}

function sendAttributes({ queue, kind }: { queue: string; kind: string }): Attributes {
  return { [system]: 'holdfast', [operation]: 'send', [destination]: queue, 'holdfast.job.kind': kind }
}

/** Made at once: there are thousands in a second. */
function attemptAttributes({ queue, kind }: { queue: string; kind: string }, is: string): Attributes {
  return {
    [system]: 'holdfast',
    [operation]: 'process',
    [destination]: queue,
    'holdfast.job.kind': kind,
    'holdfast.outcome': is,
  }
}

function outcomeAttributes(is: string): Attributes {
  return { 'holdfast.outcome': is }
}

function errorAttributes(error: unknown): Attributes {
  return { [errorType]: errorTypeOf(error) }
}

function lockAttributes(mode: string, is: string): Attributes {
  return { 'holdfast.lock.mode': mode, 'holdfast.outcome': is }
}

function scheduleAttributes(name: string, is: string): Attributes {
  return { 'holdfast.schedule.name': name, 'holdfast.outcome': is }
}

function electionAttributes(name: string, is: string): Attributes {
  return { 'holdfast.election.name': name, 'holdfast.outcome': is }
}

function shareAttributes(share: string, is: string): Attributes {
  return { 'holdfast.share.name': share, 'holdfast.outcome': is }
}

export const eventMeasurements: EventMeasurements = {
  'job.enqueued': (event, measure) =>
    measure('messaging.client.sent.messages', event.ids.length, sendAttributes(event)),
  'job.done': (event, measure) =>
    measure('messaging.process.duration', event.durationMs / second, attemptAttributes(event, 'done')),
  'job.failed': (event, measure) =>
    measure('messaging.process.duration', event.durationMs / second, {
      ...attemptAttributes(event, event.state),
      ...errorAttributes(event.error),
    }),
  'job.ended': (event, measure) =>
    measure('messaging.process.duration', event.durationMs / second, attemptAttributes(event, event.state)),
  'worker.failed': ({ error }, measure) => measure('holdfast.worker.failures', 1, errorAttributes(error)),
  'schedule.started': ({ name, lateMs }, measure) =>
    measure('holdfast.schedule.run.lateness', lateMs / second, { 'holdfast.schedule.name': name }),
  'schedule.ended': ({ name, state, durationMs }, measure) =>
    measure('holdfast.schedule.run.duration', durationMs / second, scheduleAttributes(name, state)),
  'schedule.failed': ({ name, durationMs, error }, measure) =>
    measure('holdfast.schedule.run.duration', durationMs / second, {
      ...scheduleAttributes(name, 'failed'),
      ...errorAttributes(error),
    }),
  'lock.acquired': ({ mode, waitedMs }, measure) =>
    measure('holdfast.lock.wait.duration', waitedMs / second, lockAttributes(mode, 'acquired')),
  'lock.refused': ({ mode, waitedMs }, measure) =>
    measure('holdfast.lock.wait.duration', waitedMs / second, lockAttributes(mode, 'busy')),
  'lock.released': ({ mode, heldMs }, measure) =>
    measure('holdfast.lock.hold.duration', heldMs / second, lockAttributes(mode, 'released')),
  'lock.lost': ({ mode, heldMs }, measure) =>
    measure('holdfast.lock.hold.duration', heldMs / second, lockAttributes(mode, 'lost')),
  'lease.acquired': ({ waitedMs }, measure) =>
    measure('holdfast.lease.wait.duration', waitedMs / second, outcomeAttributes('acquired')),
  'lease.refused': ({ waitedMs }, measure) =>
    measure('holdfast.lease.wait.duration', waitedMs / second, outcomeAttributes('busy')),
  'lease.released': ({ heldMs }, measure) =>
    measure('holdfast.lease.hold.duration', heldMs / second, outcomeAttributes('released')),
  'lease.lost': ({ heldMs }, measure) =>
    measure('holdfast.lease.hold.duration', heldMs / second, outcomeAttributes('lost')),
  'limit.acquired': ({ waitedMs }, measure) =>
    measure('holdfast.limit.wait.duration', waitedMs / second, outcomeAttributes('acquired')),
  'limit.reached': ({ waitedMs }, measure) =>
    measure('holdfast.limit.wait.duration', waitedMs / second, outcomeAttributes('reached')),
  'limit.released': ({ heldMs }, measure) =>
    measure('holdfast.limit.hold.duration', heldMs / second, outcomeAttributes('released')),
  'limit.lost': ({ heldMs }, measure) =>
    measure('holdfast.limit.hold.duration', heldMs / second, outcomeAttributes('lost')),
  'rate.refused': (_, measure) => measure('holdfast.rate.refusals', 1, {}),
  'election.resigned': ({ name, ledMs }, measure) =>
    measure('holdfast.election.term.duration', ledMs / second, electionAttributes(name, 'resigned')),
  'election.lost': ({ name, ledMs }, measure) =>
    measure('holdfast.election.term.duration', ledMs / second, electionAttributes(name, 'lost')),
  'election.failed': ({ name, error }, measure) =>
    measure('holdfast.election.failures', 1, { 'holdfast.election.name': name, ...errorAttributes(error) }),
  'once.done': ({ durationMs }, measure) => {
    measure('holdfast.once.answers', 1, outcomeAttributes('done'))
    measure('holdfast.once.run.duration', durationMs / second, outcomeAttributes('done'))
  },
  'once.replayed': (_, measure) => measure('holdfast.once.answers', 1, outcomeAttributes('replayed')),
  'once.mismatched': (_, measure) => measure('holdfast.once.answers', 1, outcomeAttributes('mismatched')),
  'once.refused': (_, measure) => measure('holdfast.once.answers', 1, outcomeAttributes('in-progress')),
  'once.failed': ({ durationMs, error }, measure) => {
    measure('holdfast.once.answers', 1, outcomeAttributes('failed'))
    measure('holdfast.once.run.duration', durationMs / second, {
      ...outcomeAttributes('failed'),
      ...errorAttributes(error),
    })
  },
  'once.lost': ({ durationMs, reason }, measure) => {
    measure('holdfast.once.answers', 1, outcomeAttributes('lost'))
    measure('holdfast.once.run.duration', durationMs / second, {
      ...outcomeAttributes('lost'),
      ...errorAttributes(reason),
    })
  },
  'share.gained': ({ share }, measure) => measure('holdfast.share.changes', 1, shareAttributes(share, 'gained')),
  'share.released': ({ share }, measure) => measure('holdfast.share.changes', 1, shareAttributes(share, 'released')),
  'share.failed': ({ share, error }, measure) =>
    measure('holdfast.share.failures', 1, { 'holdfast.share.name': share, ...errorAttributes(error) }),
  'instance.lost': ({ reason }, measure) => measure('holdfast.instance.losses', 1, errorAttributes(reason)),
}
