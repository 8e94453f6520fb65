import type { SpanName, Spans } from '../base/index.js'

type Attributes = Record<string, string | number | string[]>

/** Definition of an OpenTelemetry span. */
export interface SpanDefinition<Name extends SpanName> {
  readonly kind: 'internal' | 'producer' | 'consumer'
  /**
   * True if the span starts a new trace. Loops create such spans, which must not become part of the trace that started
   * the loop.
   */
  readonly isRoot?: true
  readonly attributes: readonly string[]
  /**
   * Returns the span name, which is one of a small set of names. Names of locks, leases, limits and keys are
   * attributes.
   */
  name(facts: Spans[Name]): string
  describe(facts: Spans[Name]): Attributes
}

const messagingAttributes = [
  'messaging.system',
  'messaging.operation.name',
  'messaging.operation.type',
  'messaging.destination.name',
  'messaging.batch.message_count',
  'holdfast.job.kind',
] as const

/** Definitions of all spans. A test compares them with the reference documentation. */
export const spanDefinitions: { readonly [Name in SpanName]: SpanDefinition<Name> } = {
  'lock wait': {
    kind: 'internal',
    attributes: ['holdfast.lock.names', 'holdfast.lock.mode'],
    name: () => 'lock wait',
    describe: ({ names, mode }) => ({ 'holdfast.lock.names': [...names], 'holdfast.lock.mode': mode }),
  },
  'lock hold': {
    kind: 'internal',
    attributes: ['holdfast.lock.names', 'holdfast.lock.mode', 'holdfast.fence'],
    name: () => 'lock hold',
    describe: ({ names, mode, fence }) => ({
      'holdfast.lock.names': [...names],
      'holdfast.lock.mode': mode,
      'holdfast.fence': fence,
    }),
  },
  'lease wait': {
    kind: 'internal',
    attributes: ['holdfast.lease.name'],
    name: () => 'lease wait',
    describe: ({ name }) => ({ 'holdfast.lease.name': name }),
  },
  'lease hold': {
    kind: 'internal',
    attributes: ['holdfast.lease.name', 'holdfast.fence'],
    name: () => 'lease hold',
    describe: ({ name, fence }) => ({ 'holdfast.lease.name': name, 'holdfast.fence': fence }),
  },
  'limit wait': {
    kind: 'internal',
    attributes: ['holdfast.limit.name'],
    name: () => 'limit wait',
    describe: ({ name }) => ({ 'holdfast.limit.name': name }),
  },
  'limit hold': {
    kind: 'internal',
    attributes: ['holdfast.limit.name', 'holdfast.fence'],
    name: () => 'limit hold',
    describe: ({ name, fence }) => ({ 'holdfast.limit.name': name, 'holdfast.fence': fence }),
  },
  'election term': {
    kind: 'internal',
    isRoot: true,
    attributes: ['holdfast.election.name', 'holdfast.election.term'],
    name: ({ name }) => `election term ${name}`,
    describe: ({ name, term }) => ({ 'holdfast.election.name': name, 'holdfast.election.term': term }),
  },
  'once run': {
    kind: 'internal',
    attributes: ['holdfast.once.key', 'holdfast.fence'],
    name: () => 'once run',
    describe: ({ key, fence }) => ({ 'holdfast.once.key': key, 'holdfast.fence': fence }),
  },
  'schedule run': {
    kind: 'internal',
    isRoot: true,
    attributes: ['holdfast.schedule.name', 'holdfast.schedule.tick', 'holdfast.attempt', 'holdfast.fence'],
    name: ({ name }) => `schedule run ${name}`,
    describe: ({ name, tick, attempt, fence }) => ({
      'holdfast.schedule.name': name,
      'holdfast.schedule.tick': tick.toISOString(),
      'holdfast.attempt': attempt,
      'holdfast.fence': fence,
    }),
  },
  'job send': {
    kind: 'producer',
    attributes: messagingAttributes,
    name: ({ queue }) => `send ${queue}`,
    describe: ({ queue, kind, count }) => messagingValues('send', queue, kind, count),
  },
  'job process': {
    kind: 'consumer',
    isRoot: true,
    attributes: [...messagingAttributes, 'messaging.message.id', 'holdfast.attempt'],
    name: ({ queue }) => `process ${queue}`,
    describe: ({ queue, kind, ids, attempt }) => ({
      ...messagingValues('process', queue, kind, ids.length),
      ...(ids.length === 1 ? { 'messaging.message.id': String(ids[0]), 'holdfast.attempt': attempt } : {}),
    }),
  },
  'job step': {
    kind: 'internal',
    attributes: ['holdfast.job.step', 'holdfast.job.kind', 'messaging.message.id', 'holdfast.attempt'],
    name: () => 'job step',
    describe: ({ step, kind, id, attempt }) => ({
      'holdfast.job.step': step,
      'holdfast.job.kind': kind,
      'messaging.message.id': String(id),
      'holdfast.attempt': attempt,
    }),
  },
}

function messagingValues(operation: 'send' | 'process', queue: string, kind: string, count: number): Attributes {
  return {
    'messaging.system': 'holdfast',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.destination.name': queue,
    'holdfast.job.kind': kind,
    ...(count === 1 ? {} : { 'messaging.batch.message_count': count }),
  }
}
