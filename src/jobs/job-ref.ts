/** Reference to a job that has been enqueued. */
export interface JobRef {
  readonly id: number
  /**
   * Whether a new job was enqueued. False if another job already has the unique key. In this case, the object refers to
   * the existing job.
   */
  readonly isNew: boolean
}
