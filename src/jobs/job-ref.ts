/** A job that was enqueued. */
export interface JobRef {
  readonly id: number
  /** False when another job had the unique key: then this is that one. */
  readonly isNew: boolean
}
