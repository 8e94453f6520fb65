/** Reference to a job that has been enqueued. `Result` is the type of the job's result. */
export interface JobRef<Result = unknown> {
  readonly id: number
  /**
   * Whether a new job was enqueued. False if another job already has the unique key. In this case, the object refers to
   * the existing job.
   */
  readonly isNew: boolean
  /** Type of the result. This property does not exist at run time. */
  readonly '~types'?: { readonly result: Result } | undefined
}

/** A job, such as the reference that `enqueue` returns or the status that `find` returns, or its ID. */
export type JobOrId = { readonly id: number } | number
