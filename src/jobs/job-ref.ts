/** A job that was enqueued. */
export interface JobRef {
  readonly id: number
  /** False if another job already had the unique key. In this case, this object refers to that job. */
  readonly isNew: boolean
}
