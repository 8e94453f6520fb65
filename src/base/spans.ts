/** All trace spans, and the facts of each. A test compares docs/reference/metrics.md with this interface. */
export interface Spans {
  /** Wait of `locks.with` for its names. */
  'lock wait': { readonly names: readonly string[]; readonly mode: string }
  /** Run of the function that `locks.with` receives. */
  'lock hold': { readonly names: readonly string[]; readonly mode: string; readonly fence: number }
  /** Wait of `leases.with` for its name. */
  'lease wait': { readonly name: string }
  /** Run of the function that `leases.with` receives. */
  'lease hold': { readonly name: string; readonly fence: number }
  /** Wait of `limits.with` for its permit. */
  'limit wait': { readonly name: string }
  /** Run of the function that `limits.with` receives. */
  'limit hold': { readonly name: string; readonly fence: number }
  /** One term of a leader. */
  'election term': { readonly name: string; readonly term: number }
  /** Run of the function of an idempotency key. */
  'once run': { readonly key: string; readonly fence: number }
  /** One run of a schedule. */
  'schedule run': { readonly name: string; readonly tick: Date; readonly attempt: number; readonly fence: number }
  /** Enqueueing jobs of a queue. */
  'job send': { readonly queue: string; readonly kind: string; readonly count: number }
  /** One attempt of a job or of a batch of jobs. */
  'job process': {
    readonly queue: string
    readonly kind: string
    readonly ids: readonly number[]
    readonly attempt: number
    /** The `traceparent` values of the spans that enqueued the jobs. */
    readonly traces: readonly string[]
  }
}

export type SpanName = keyof Spans

/** Runs the work of rooms inside trace spans. */
export interface Tracer {
  /** Runs `work` inside a span, which ends when `work` ends. Returns the result of `work`, synchronously if `work` is synchronous. */
  withSpan<Name extends SpanName, T>(name: Name, facts: Spans[Name], work: () => T): T
  /** Returns the current span as a W3C `traceparent`, to pass it to another process. */
  traceparent(): string | undefined
}

/** Holds the tracer, if there is one. Rooms read it for each span. */
export interface TracerSlot {
  tracer: Tracer | undefined
}
