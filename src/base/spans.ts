/** All trace spans and their attributes. A test compares docs/reference/metrics.md with this interface. */
export interface Spans {
  /** Time during which `locks.with` waits for its names. */
  'lock wait': { readonly names: readonly string[]; readonly mode: string }
  /** Execution of the function that was passed to `locks.with`. */
  'lock hold': { readonly names: readonly string[]; readonly mode: string; readonly fence: number }
  /** Time during which `leases.with` waits for its name. */
  'lease wait': { readonly name: string }
  /** Execution of the function that was passed to `leases.with`. */
  'lease hold': { readonly name: string; readonly fence: number }
  /** Time during which `limits.with` waits for its permit. */
  'limit wait': { readonly name: string }
  /** Execution of the function that was passed to `limits.with`. */
  'limit hold': { readonly name: string; readonly fence: number }
  /** One leader's term. */
  'election term': { readonly name: string; readonly term: number }
  /** Execution of the function for an idempotency key. */
  'once run': { readonly key: string; readonly fence: number }
  /** One schedule run. */
  'schedule run': { readonly name: string; readonly tick: Date; readonly attempt: number; readonly fence: number }
  /** One call that enqueues one or more jobs in a queue. */
  'job send': { readonly queue: string; readonly kind: string; readonly count: number }
  /** One attempt to run a job or a batch of jobs. */
  'job process': {
    readonly queue: string
    readonly kind: string
    readonly ids: readonly number[]
    readonly attempt: number
    /** The `traceparent` values of the spans that enqueued the jobs. */
    readonly traces: readonly string[]
  }
  /** Execution of the function of one step or of `cursor.advance`, including the write that records its result. */
  'job step': { readonly step: string; readonly kind: string; readonly id: number; readonly attempt: number }
}

export type SpanName = keyof Spans

/** Runs the modules' work inside trace spans. */
export interface Tracer {
  /**
   * Runs `work` inside a span, which ends when `work` ends. Returns `work`'s result, synchronously if `work` is
   * synchronous.
   */
  withSpan<Name extends SpanName, T>(name: Name, facts: Spans[Name], work: () => T): T
  /** Returns the current span as a W3C `traceparent`, to pass it to another process. */
  traceparent(): string | undefined
}

/** Holds the tracer, if one is set. Modules read the tracer for each span. */
export interface TracerSlot {
  tracer: Tracer | undefined
}
