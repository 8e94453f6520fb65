import { Batcher, oneOf, readOptions, UsageError, wholeNumber } from '../base/index.js'
import { type RuleOptions, ruleFromOptions } from '../cron/index.js'
import { type JobPort, keyOfSchedule, missedRule, type ScheduledJob, scheduledJob, tickRules } from './definition.js'
import type { ScheduleStore } from './store.js'

/** Schedule that is stored in the database. Each tick enqueues a job. */
export interface StoredScheduleOptions<Input> extends RuleOptions {
  /** Job that each tick enqueues exactly once. */
  job: ScheduledJob<Input>
  /** Input of the jobs. The jobs' `meta` contains the name of the schedule and the tick. */
  input: NoInfer<Input>
  /** Priority of the jobs, from -5 to 5. The default is 0. */
  priority?: number | undefined
  /**
   * Handling of a tick that is due while the job of an earlier tick has not ended: `allow` enqueues another job (the default), `skip`
   * enqueues none and records a gap.
   */
  overlap?: 'allow' | 'skip' | undefined
  /**
   * Handling of ticks that no instance settled before the next tick or within a minute: `skip` them (the default), enqueue a job for
   * the `latest` tick, or for up to N of them (`{ all: N }`), oldest first.
   */
  missed?: 'skip' | 'latest' | { all: number } | undefined
}

/** Result of `schedules.upsert`. */
export type UpsertOutcome = 'created' | 'changed' | 'unchanged'

interface StoredScheduleDocument {
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly rule: string
  readonly head: string
  readonly input: string
  readonly overlap: string
  readonly missed: string
  readonly catch_up: number
}

const rules = {
  job: scheduledJob,
  input: { expected: 'the input of the job', read: (given: unknown) => ({ given }) },
  priority: wholeNumber(-5, 5),
  overlap: oneOf('allow', 'skip'),
  missed: missedRule,
  ...tickRules,
}

interface StoredSchedulesOptions {
  readonly store: ScheduleStore
  readonly namespace: string
  readonly jobs: JobPort
}

/** Creates, changes and removes schedules that are stored in the database. Concurrent calls share a statement. */
export class StoredSchedules {
  readonly #options: StoredSchedulesOptions
  readonly #storing: Batcher<StoredScheduleDocument, UpsertOutcome | 'in code'>

  constructor(options: StoredSchedulesOptions) {
    this.#options = options
    this.#storing = new Batcher(async (documents) => {
      const [row] = await options.store.run<{ outcomes: string }>('store', [serialize(documents)])
      return row!.outcomes.split(',') as (UpsertOutcome | 'in code')[]
    })
  }

  async upsert<Input>(name: string, given: StoredScheduleOptions<Input>): Promise<UpsertOutcome> {
    const where = 'schedules.upsert'
    const { job, priority = 0, overlap = 'allow', missed = 'skip' } = readOptions(where, given, rules)
    if (job === undefined) {
      throw new UsageError(
        'Expected the option job of schedules.upsert to be a definition made by defineJob, got undefined',
        'To run a function instead of a job, use schedules.add.',
      )
    }
    const { cron, every, at, timezone } = given
    const rule = ruleFromOptions(where, { cron, every, at, timezone }).text
    const { namespace, jobs } = this.#options
    const { head, input } = await jobs.prepare(job, given.input, priority)
    const outcome = await this.#storing.add({
      key: keyOfSchedule(namespace, name),
      namespace,
      name,
      rule,
      head,
      input,
      overlap,
      missed: typeof missed === 'number' ? 'all' : missed,
      catch_up: typeof missed === 'number' ? missed : 0,
    })
    if (outcome !== 'in code') return outcome
    throw new UsageError(`The schedule "${name}" is defined in code`, 'Choose another name for the stored schedule.')
  }

  async remove(name: string): Promise<boolean> {
    const { store, namespace } = this.#options
    const [row] = await store.run<{ is_removed: boolean }>('drop', [keyOfSchedule(namespace, name)])
    return row!.is_removed
  }
}

/**
 * Serializes documents for `schedule_store`. Head and input are JSON already. The input is sent as a string, because
 * PostgreSQL would reject the whole statement if an input contained an escape that has no text, such as `\\u0000`.
 */
function serialize(documents: readonly StoredScheduleDocument[]): string {
  const texts = documents.map(({ head, ...rest }, at) => {
    return `${JSON.stringify({ place: at + 1, ...rest }).slice(0, -1)},"head":${head}}`
  })
  return `[${texts.join(',')}]`
}
