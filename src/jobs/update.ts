// Changes to a job that is not running.
import { type Duration, type Instant, type JobMeta, readOptions, UsageError } from '../base/index.js'
import { checkDefinition, validated } from './define.js'
import type { JobDefinition } from './definition.js'
import { checkDeadline, timeRules } from './enqueue-options.js'
import { metaRule, writeMeta } from './meta.js'
import { writePayload } from './payload.js'

/** Changes to a job. An omitted option keeps its value. */
export interface JobChanges {
  /** The job's earliest start, as a delay from the database clock's current time. */
  delay?: Duration | undefined
  /** The job's earliest start, as a point in time. */
  runAt?: Instant | undefined
  /** Deadline for the start. Only a job that has not begun can have a deadline. See `jobs.enqueue`. */
  startBy?: Duration | Instant | undefined
  /** Whole number from -5 to 5. */
  priority?: number | undefined
  /** Replaces the job's meta. */
  meta?: JobMeta | undefined
}

/** Changes to a job that include a new input. */
export interface JobInputChanges<Input> extends JobChanges {
  /** Definition of the job. The input is validated with its schema. */
  definition: JobDefinition<Input>
  /** New input. Failed attempts no longer count, and recorded steps and events are deleted, because they belong to the old input. */
  input: NoInfer<Input>
}

const updateRules = {
  ...timeRules,
  meta: metaRule,
  definition: { expected: 'a definition made by defineJob', read: (given: unknown) => given },
  input: { expected: 'an input', read: (given: unknown) => ({ value: given }) },
}

/** Returns the parameters for the `update` statement. */
export async function updateValues(id: number, changes: JobChanges): Promise<unknown[]> {
  const { delay, runAt, startBy, priority, meta, definition, input } = readOptions('jobs.update', changes, updateRules)
  if (delay !== undefined && runAt !== undefined) throw new UsageError('Expected either delay or runAt, got both')
  checkDeadline(startBy, delay, runAt)
  if ((definition === undefined) !== (input === undefined)) {
    throw new UsageError(
      'Expected both options, definition and input, but got only one',
      'The definition contains the schema that validates the input.',
    )
  }
  if (Object.keys(changes ?? {}).length === 0) throw new UsageError('Expected at least one change, got none')
  let payload: string | null = null
  if (input !== undefined) {
    checkDefinition(definition)
    await validated(definition, input.value)
    payload = writePayload(input.value, 'an input') ?? 'null'
  }
  const [startByMs, startByTime] = typeof startBy === 'number' ? [Math.ceil(startBy), null] : [null, startBy ?? null]
  return [
    id,
    (definition as JobDefinition | undefined)?.kind ?? null,
    payload,
    meta === undefined ? null : (writeMeta(meta) ?? '{}'),
    priority ?? null,
    delay === undefined ? null : Math.ceil(delay),
    runAt ?? null,
    startByMs,
    startByTime,
  ]
}
