/** Which payload it is. */
export interface Payload {
  readonly what:
    | 'job input'
    | 'job result'
    | 'job error'
    | 'job log'
    | 'run error'
    | 'run log'
    | 'delivery answer'
    | 'delivery body'
  /** The kind of the job, the name of the schedule, or the key of the delivery. */
  readonly of: string
}

/** Makes of a payload what may be shown. */
export type Redact = (payload: unknown, about: Payload) => unknown

/** What is shown where the hook itself fails: never the payload. */
const notShown = 'not shown: redact failed'

/** A hook that fails must not show what it was to hide. */
export function redactWith(hook: Redact | undefined): Redact {
  if (hook === undefined) return (payload) => payload
  return (payload, about) => {
    try {
      return hook(payload, about)
    } catch {
      return notShown
    }
  }
}
