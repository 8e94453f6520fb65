import { formatDuration, HoldfastError } from '../base/index.js'

/** The reason of a run's signal: another instance may have the tick; nothing of this run is recorded. */
export class RunLostError extends HoldfastError {
  /** The name of the schedule. */
  readonly schedule: string
  readonly tick: Date
  readonly fence: number

  constructor(schedule: string, tick: Date, fence: number, cause?: Error) {
    super(
      `The run of "${schedule}" for ${tick.toISOString()} was lost${cause ? `: ${cause.message}` : ' to another instance'}`,
      {
        code: 'RUN_LOST',
        retryable: true,
        hint: 'Stop the work. What it did by `tx` is rolled back; another instance runs the tick.',
        cause,
      },
    )
    this.schedule = schedule
    this.tick = tick
    this.fence = fence
  }
}

/** The reason of a run's signal: it took longer than `timeout`. It has failed, whatever it returns. */
export class RunTimeoutError extends HoldfastError {
  /** The name of the schedule. */
  readonly schedule: string

  constructor(schedule: string, timeoutMs: number) {
    super(`The run of "${schedule}" took longer than ${formatDuration(timeoutMs)}`, {
      code: 'RUN_TIMEOUT',
      retryable: true,
      hint: 'Stop the work. Give the schedule a longer timeout if this is its usual time.',
    })
    this.schedule = schedule
  }
}

/** The reason of a run's signal: a later tick takes its place (`overlap: 'replace'`), as soon as it has ended. */
export class RunReplacedError extends HoldfastError {
  /** The name of the schedule. */
  readonly schedule: string

  constructor(schedule: string) {
    super(`The run of "${schedule}" is replaced by that of a later tick`, {
      code: 'RUN_REPLACED',
      retryable: false,
      hint: 'Stop the work and throw; the later run begins when this one has ended.',
    })
    this.schedule = schedule
  }
}

/** The reason of a run's signal: its schedule is closing here, and the time for coming to an end is over. */
export class RunDrainingError extends HoldfastError {
  /** The name of the schedule. */
  readonly schedule: string

  constructor(schedule: string) {
    super(`The schedule "${schedule}" is closing`, {
      code: 'RUN_DRAINING',
      retryable: true,
      hint: 'Stop the work and throw; another instance runs the tick again.',
    })
    this.schedule = schedule
  }
}

/** There is no schedule of this name: nobody has ever added it. */
export class UnknownScheduleError extends HoldfastError {
  /** The name that was asked for. */
  readonly schedule: string

  constructor(schedule: string, namespace: string) {
    super(`There is no schedule "${schedule}" in the namespace "${namespace}"`, {
      code: 'UNKNOWN_SCHEDULE',
      retryable: false,
      hint: 'An instance adds it by schedules.add; schedules.list() tells which there are.',
    })
    this.schedule = schedule
  }
}
