import { didYouMean, formatDuration, HoldfastError } from '../base/index.js'

/** Abort reason of a run's signal if another instance may run the tick. This run's result is not recorded. */
export class RunLostError extends HoldfastError {
  /** Name of the schedule. */
  readonly schedule: string
  readonly tick: Date
  readonly fence: number

  constructor(schedule: string, tick: Date, fence: number, cause?: Error) {
    super(
      `The run of schedule "${schedule}" for ${tick.toISOString()} was lost${cause ? `: ${cause.message}` : ' to another instance'}`,
      {
        code: 'RUN_LOST',
        retryable: true,
        hint: 'Stop the work. Writes through `tx` are rolled back, and another instance runs the tick.',
        cause,
      },
    )
    this.schedule = schedule
    this.tick = tick
    this.fence = fence
  }
}

/** Abort reason of a run's signal if the run exceeds `timeout`. The run fails, even if the handler returns. */
export class RunTimeoutError extends HoldfastError {
  /** Name of the schedule. */
  readonly schedule: string

  constructor(schedule: string, timeoutMs: number) {
    super(`The run of schedule "${schedule}" exceeded its timeout of ${formatDuration(timeoutMs)}`, {
      code: 'RUN_TIMEOUT',
      retryable: true,
      hint: 'Stop the work. Set a longer timeout if runs usually take this long.',
    })
    this.schedule = schedule
  }
}

/**
 * Abort reason of a run's signal if a later tick replaces the run (`overlap: 'replace'`). The later run starts when
 * this run has ended.
 */
export class RunReplacedError extends HoldfastError {
  /** Name of the schedule. */
  readonly schedule: string

  constructor(schedule: string) {
    super(`A later tick is replacing this run of schedule "${schedule}"`, {
      code: 'RUN_REPLACED',
      retryable: false,
      hint: 'Stop the work and throw an error. The later run starts when this run has ended.',
    })
    this.schedule = schedule
  }
}

/** Thrown if no instance has ever added a schedule with this name. */
export class UnknownScheduleError extends HoldfastError {
  /** Requested name. */
  readonly schedule: string

  /** `known` contains the names of existing schedules. The hint suggests a similar name. */
  constructor(schedule: string, namespace: string, known: Iterable<string>) {
    super(`There is no schedule "${schedule}" in the namespace "${namespace}"`, {
      code: 'UNKNOWN_SCHEDULE',
      retryable: false,
      hint:
        didYouMean(schedule, known) ??
        'Add the schedule with schedules.add. To see the existing schedules, call schedules.list().',
    })
    this.schedule = schedule
  }
}
