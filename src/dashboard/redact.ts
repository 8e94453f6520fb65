/** Identifies a payload. */
export interface Payload {
  readonly what:
    | 'job input'
    | 'job meta'
    | 'job result'
    | 'job error'
    | 'job log'
    | 'run error'
    | 'run log'
    | 'delivery answer'
    | 'delivery body'
  /** The job's kind, the schedule's name, or the delivery's key. */
  readonly of: string
}

/** Removes confidential data from a payload and returns the value to show. */
export type Redact = (payload: unknown, about: Payload) => unknown

/** Wraps the user's `redact` function. If the function throws, the payload is not shown. */
export function redactWith(hook: Redact | undefined): Redact {
  if (hook === undefined) return (payload) => payload
  return (payload, about) => {
    try {
      return hook(payload, about)
    } catch {
      return 'not shown: redact failed'
    }
  }
}
