/** A step of a job: recorded, or waiting. */
export interface JobStep {
  /** Name of the step, unique in its job. */
  readonly name: string
  /** `step`: a function that has run. `cursor`: a value that the handler replaces. `sleep` and `event`: waits. */
  readonly kind: 'step' | 'cursor' | 'sleep' | 'event'
  /** Number of the attempt that recorded the step. */
  readonly attempt: number
  /** Time when the step started. */
  readonly startedAt: string
  /** Time when the step was recorded. Null while the job sleeps or waits for the event. */
  readonly endedAt: string | null
  /** End of the sleep, or time after which the job no longer waits for the event. Null for steps and cursors. */
  readonly until: string | null
  /** Name of the event. Null if the step is not a wait for an event. */
  readonly event: string | null
}
