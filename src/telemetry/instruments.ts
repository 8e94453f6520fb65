import { type EventName, type HoldfastEvents, isError, memberOf, textOf } from '../base/index.js'

/**
 * Definition of a metric. OpenTelemetry and Prometheus share the definitions, and a test compares them with
 * docs/reference/metrics.md. Names and units follow OpenTelemetry's semantic conventions. No attribute contains the
 * name of a lock, lease, limit or key, because the number of such names is unbounded.
 */
export interface Instrument {
  readonly kind: 'counter' | 'histogram'
  /** Unit of the metric: `s`, or the name of the counted item in braces. */
  readonly unit: string
  readonly description: string
  readonly attributes: readonly string[]
}

const system = 'messaging.system'
const destination = 'messaging.destination.name'
const operation = 'messaging.operation.name'
const errorType = 'error.type'
const jobKind = 'holdfast.job.kind'
const outcomeKey = 'holdfast.outcome'

function counter(unit: string, description: string, ...attributes: readonly string[]): Instrument {
  return { kind: 'counter', unit, description, attributes }
}

function duration(description: string, ...attributes: readonly string[]): Instrument {
  return { kind: 'histogram', unit: 's', description, attributes }
}

export const instruments = {
  'messaging.client.sent.messages': counter(
    '{message}',
    'Number of enqueued jobs',
    system,
    operation,
    destination,
    jobKind,
  ),
  'messaging.process.duration': duration(
    'Duration of job attempts',
    system,
    operation,
    destination,
    jobKind,
    outcomeKey,
    errorType,
  ),
  'holdfast.job.expirations': counter(
    '{job}',
    'Number of jobs that no worker claimed before their deadline',
    destination,
    jobKind,
  ),
  'holdfast.worker.failures': counter(
    '{failure}',
    'Number of errors that prevented a worker from claiming jobs',
    errorType,
  ),
  'holdfast.schedule.run.duration': duration(
    'Duration of schedule runs',
    'holdfast.schedule.name',
    outcomeKey,
    errorType,
  ),
  'holdfast.schedule.run.lateness': duration('Delay between a tick and the start of its run', 'holdfast.schedule.name'),
  'holdfast.lock.wait.duration': duration('Time that callers waited for locks', 'holdfast.lock.mode', outcomeKey),
  'holdfast.lock.hold.duration': duration('Time that locks were held', 'holdfast.lock.mode', outcomeKey),
  'holdfast.lease.wait.duration': duration('Time that callers waited for leases', outcomeKey),
  'holdfast.lease.hold.duration': duration('Time that leases were held', outcomeKey),
  'holdfast.limit.wait.duration': duration('Time that callers waited for permits', outcomeKey),
  'holdfast.limit.hold.duration': duration('Time that permits were held', outcomeKey),
  'holdfast.rate.refusals': counter('{refusal}', 'Number of calls that limits.consume refused'),
  'holdfast.election.term.duration': duration(
    'Time that this instance was the leader',
    'holdfast.election.name',
    outcomeKey,
  ),
  'holdfast.election.failures': counter(
    '{failure}',
    'Number of errors thrown by campaign functions, plus errors that prevented an instance from standing for election',
    'holdfast.election.name',
    errorType,
  ),
  'holdfast.once.answers': counter('{answer}', 'Number of calls to once, by outcome', outcomeKey),
  'holdfast.once.run.duration': duration('Duration of the functions that once ran', outcomeKey, errorType),
  'holdfast.share.changes': counter(
    '{change}',
    'Number of share resources that this instance gained or released',
    'holdfast.share.name',
    outcomeKey,
  ),
  'holdfast.share.failures': counter(
    '{failure}',
    'Number of errors thrown by share functions, plus errors that prevented participation in a share',
    'holdfast.share.name',
    errorType,
  ),
  'holdfast.instance.losses': counter(
    '{loss}',
    'Number of times that this instance lost its session, and with it its locks and permits',
    errorType,
  ),
} as const satisfies Record<string, Instrument>

export type InstrumentName = keyof typeof instruments

export type Attributes = Record<string, string>

/** Records a measurement with an OpenTelemetry meter, or adds it to the totals for Prometheus. */
export type Measure = (name: InstrumentName, value: number, attributes: Attributes) => void

/** Measurements for each event. */
type EventMeasurements = { readonly [Name in EventName]?: (event: HoldfastEvents[Name], measure: Measure) => void }
type Duration = 'waitedMs' | 'heldMs' | 'ledMs' | 'durationMs' | 'lateMs'

const second = 1_000

/** Returns the error's code. If there is no code, returns the name of the error's class. */
export function errorTypeOf(error: unknown): string {
  if (!isError(error)) return '_OTHER'
  const code = memberOf(error, 'code')
  return textOf(typeof code === 'string' ? code : memberOf(error, 'name'))
}

/** Written as one object literal, because thousands of these objects are created per second. */
function attemptAttributes({ queue, kind }: { queue: string; kind: string }, outcome: string): Attributes {
  return {
    [system]: 'holdfast',
    [operation]: 'process',
    [destination]: queue,
    [jobKind]: kind,
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

/** Records a duration that an event contains. */
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

/** Counts a call to `once`. */
function answered(outcome: string) {
  return (_: unknown, measure: Measure) => measure('holdfast.once.answers', 1, outcomeAttributes(outcome))
}

/** Counts a call to `once` and measures its run. */
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
      [jobKind]: kind,
    }),
  'job.done': timed('messaging.process.duration', 'durationMs', (event) => attemptAttributes(event, 'done')),
  'job.failed': timed('messaging.process.duration', 'durationMs', (event) => ({
    ...attemptAttributes(event, event.state),
    ...errorAttributes(event.error),
  })),
  'job.ended': timed('messaging.process.duration', 'durationMs', (event) => attemptAttributes(event, event.state)),
  'job.expired': ({ queue, kind }, measure) =>
    measure('holdfast.job.expirations', 1, { [destination]: queue, [jobKind]: kind }),
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
  'limit.refused': timedOutcome('holdfast.limit.wait.duration', 'waitedMs', 'reached'),
  'limit.released': timedOutcome('holdfast.limit.hold.duration', 'heldMs', 'released'),
  'limit.lost': timedOutcome('holdfast.limit.hold.duration', 'heldMs', 'lost'),
  'rate.refused': (_, measure) => measure('holdfast.rate.refusals', 1, {}),
  'election.resigned': timed('holdfast.election.term.duration', 'ledMs', (e) => electionAttributes(e.name, 'resigned')),
  'election.lost': timed('holdfast.election.term.duration', 'ledMs', (e) => electionAttributes(e.name, 'lost')),
  'election.failed': ({ name, error }, measure) =>
    measure('holdfast.election.failures', 1, { 'holdfast.election.name': name, ...errorAttributes(error) }),
  'delivery.done': (event, measure) => ran('done', event, measure),
  'delivery.replayed': answered('replayed'),
  'delivery.mismatched': answered('mismatched'),
  'delivery.refused': answered('in-progress'),
  'delivery.failed': (event, measure) => ran('failed', event, measure, errorAttributes(event.error)),
  'delivery.lost': (event, measure) => ran('lost', event, measure, errorAttributes(event.reason)),
  'share.gained': ({ share }, measure) => measure('holdfast.share.changes', 1, shareAttributes(share, 'gained')),
  'share.released': ({ share }, measure) => measure('holdfast.share.changes', 1, shareAttributes(share, 'released')),
  'share.failed': ({ share, error }, measure) =>
    measure('holdfast.share.failures', 1, { 'holdfast.share.name': share, ...errorAttributes(error) }),
  'instance.lost': ({ reason }, measure) => measure('holdfast.instance.losses', 1, errorAttributes(reason)),
}
