import { type EventName, type HoldfastEvents, isError, memberOf, textOf } from '../base/index.js'

/**
 * Definition of a metric. OpenTelemetry and Prometheus share the definitions, and a test compares them with
 * docs/reference/metrics.md. Names and units follow the semantic conventions of OpenTelemetry. No attribute contains the name of a
 * lock, lease, limit or key, because their number is unbounded.
 */
export interface Instrument {
  readonly kind: 'counter' | 'histogram'
  /** `s`, or the counted thing in braces. */
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

/** Records a measurement, with an OpenTelemetry meter or for the Prometheus text. */
export type Measure = (name: InstrumentName, value: number, attributes: Attributes) => void

/** Measurements for each event. */
type EventMeasurements = { readonly [Name in EventName]?: (event: HoldfastEvents[Name], measure: Measure) => void }
type Duration = 'waitedMs' | 'heldMs' | 'ledMs' | 'durationMs' | 'lateMs'

const second = 1_000

/** Returns the error code, or else the name of the error's class. */
export function errorTypeOf(error: unknown): string {
  if (!isError(error)) return '_OTHER'
  const code = memberOf(error, 'code')
  return textOf(typeof code === 'string' ? code : memberOf(error, 'name'))
}

/** Written as one literal, because thousands are created per second. */
function attemptAttributes({ queue, kind }: { queue: string; kind: string }, outcome: string): Attributes {
  return {
    [system]: 'holdfast',
    [operation]: 'process',
    [destination]: queue,
    'holdfast.job.kind': kind,
    'holdfast.outcome': outcome,
  }
}

function outcomeAttributes(outcome: string): Attributes {
  return { 'holdfast.outcome': outcome }
}

function errorAttributes(error: unknown): Attributes {
  return { [errorType]: errorTypeOf(error) }
}

function lockAttributes(mode: string, outcome: string): Attributes {
  return { 'holdfast.lock.mode': mode, 'holdfast.outcome': outcome }
}

function electionAttributes(name: string, outcome: string): Attributes {
  return { 'holdfast.election.name': name, 'holdfast.outcome': outcome }
}

function shareAttributes(share: string, outcome: string): Attributes {
  return { 'holdfast.share.name': share, 'holdfast.outcome': outcome }
}

/** Measures a duration of an event. */
function timed<Field extends Duration, Event extends Readonly<Record<Field, number>>>(
  name: InstrumentName,
  field: Field,
  attributesOf: (event: Event) => Attributes,
) {
  return (event: Event, measure: Measure) => measure(name, event[field] / second, attributesOf(event))
}

function timedOutcome<Field extends Duration>(name: InstrumentName, field: Field, outcome: string) {
  return timed<Field, Readonly<Record<Field, number>>>(name, field, () => outcomeAttributes(outcome))
}

/** Counts a call of once. */
function answered(outcome: string) {
  return (_: unknown, measure: Measure) => measure('holdfast.once.answers', 1, outcomeAttributes(outcome))
}

/** Counts a call of once and measures its run. */
function ran(outcome: string, { durationMs }: { durationMs: number }, measure: Measure, error?: Attributes): void {
  measure('holdfast.once.answers', 1, outcomeAttributes(outcome))
  measure('holdfast.once.run.duration', durationMs / second, { ...outcomeAttributes(outcome), ...error })
}

export const eventMeasurements: EventMeasurements = {
  'job.enqueued': ({ ids, queue, kind }, measure) =>
    measure('messaging.client.sent.messages', ids.length, {
      [system]: 'holdfast',
      [operation]: 'send',
      [destination]: queue,
      'holdfast.job.kind': kind,
    }),
  'job.done': timed('messaging.process.duration', 'durationMs', (event) => attemptAttributes(event, 'done')),
  'job.failed': timed('messaging.process.duration', 'durationMs', (event) => ({
    ...attemptAttributes(event, event.state),
    ...errorAttributes(event.error),
  })),
  'job.ended': timed('messaging.process.duration', 'durationMs', (event) => attemptAttributes(event, event.state)),
  'worker.failed': ({ error }, measure) => measure('holdfast.worker.failures', 1, errorAttributes(error)),
  'schedule.started': timed('holdfast.schedule.run.lateness', 'lateMs', ({ name }) => ({
    'holdfast.schedule.name': name,
  })),
  'schedule.ended': timed('holdfast.schedule.run.duration', 'durationMs', ({ name, state }) => ({
    'holdfast.schedule.name': name,
    'holdfast.outcome': state,
  })),
  'schedule.failed': timed('holdfast.schedule.run.duration', 'durationMs', ({ name, error }) => ({
    'holdfast.schedule.name': name,
    'holdfast.outcome': 'failed',
    ...errorAttributes(error),
  })),
  'lock.acquired': timed('holdfast.lock.wait.duration', 'waitedMs', ({ mode }) => lockAttributes(mode, 'acquired')),
  'lock.refused': timed('holdfast.lock.wait.duration', 'waitedMs', ({ mode }) => lockAttributes(mode, 'busy')),
  'lock.released': timed('holdfast.lock.hold.duration', 'heldMs', ({ mode }) => lockAttributes(mode, 'released')),
  'lock.lost': timed('holdfast.lock.hold.duration', 'heldMs', ({ mode }) => lockAttributes(mode, 'lost')),
  'lease.acquired': timedOutcome('holdfast.lease.wait.duration', 'waitedMs', 'acquired'),
  'lease.refused': timedOutcome('holdfast.lease.wait.duration', 'waitedMs', 'busy'),
  'lease.released': timedOutcome('holdfast.lease.hold.duration', 'heldMs', 'released'),
  'lease.lost': timedOutcome('holdfast.lease.hold.duration', 'heldMs', 'lost'),
  'limit.acquired': timedOutcome('holdfast.limit.wait.duration', 'waitedMs', 'acquired'),
  'limit.reached': timedOutcome('holdfast.limit.wait.duration', 'waitedMs', 'reached'),
  'limit.released': timedOutcome('holdfast.limit.hold.duration', 'heldMs', 'released'),
  'limit.lost': timedOutcome('holdfast.limit.hold.duration', 'heldMs', 'lost'),
  'rate.refused': (_, measure) => measure('holdfast.rate.refusals', 1, {}),
  'election.resigned': timed('holdfast.election.term.duration', 'ledMs', (e) => electionAttributes(e.name, 'resigned')),
  'election.lost': timed('holdfast.election.term.duration', 'ledMs', (e) => electionAttributes(e.name, 'lost')),
  'election.failed': ({ name, error }, measure) =>
    measure('holdfast.election.failures', 1, { 'holdfast.election.name': name, ...errorAttributes(error) }),
  'once.done': (event, measure) => ran('done', event, measure),
  'once.replayed': answered('replayed'),
  'once.mismatched': answered('mismatched'),
  'once.refused': answered('in-progress'),
  'once.failed': (event, measure) => ran('failed', event, measure, errorAttributes(event.error)),
  'once.lost': (event, measure) => ran('lost', event, measure, errorAttributes(event.reason)),
  'share.gained': ({ share }, measure) => measure('holdfast.share.changes', 1, shareAttributes(share, 'gained')),
  'share.released': ({ share }, measure) => measure('holdfast.share.changes', 1, shareAttributes(share, 'released')),
  'share.failed': ({ share, error }, measure) =>
    measure('holdfast.share.failures', 1, { 'holdfast.share.name': share, ...errorAttributes(error) }),
  'instance.lost': ({ reason }, measure) => measure('holdfast.instance.losses', 1, errorAttributes(reason)),
}
