/**
 * What takes a while and is worth a span: all that a tracer is told of, and what each says of itself. The reference
 * (docs/reference/metrics.md) is compared with this.
 */
export interface Spans {
  /** The wait for the names of `locks.with`. */
  'lock wait': { readonly names: readonly string[]; readonly mode: string }
  /** The work of `locks.with`. */
  'lock hold': { readonly names: readonly string[]; readonly mode: string; readonly fence: number }
  /** The wait for the name of `leases.with`. */
  'lease wait': { readonly name: string }
  /** The work of `leases.with`. */
  'lease hold': { readonly name: string; readonly fence: number }
  /** The wait for the permit of `limits.with`. */
  'limit wait': { readonly name: string }
  /** The work of `limits.with`. */
  'limit hold': { readonly name: string; readonly fence: number }
  /** One term of a leader. */
  'election term': { readonly name: string; readonly term: number }
  /** The function of a key, when it runs. */
  'once run': { readonly key: string; readonly fence: number }
  /** One run of a schedule. */
  'schedule run': { readonly name: string; readonly tick: Date; readonly attempt: number; readonly fence: number }
  /** Enqueueing jobs of a queue. */
  'job send': { readonly queue: string; readonly kind: string; readonly count: number }
  /** One attempt, or those of a batch together. */
  'job process': {
    readonly queue: string
    readonly kind: string
    readonly ids: readonly number[]
    readonly attempt: number
    /** By which spans the jobs were enqueued. */
    readonly traces: readonly string[]
  }
}

export type SpanName = keyof Spans

/** The one place in which something stands around what rooms do. Without it nothing does. */
export interface Tracer {
  /** Runs `work` as a span, which ends when `work` does. What `work` answers is answered, in the same turn if it is there. */
  withSpan<Name extends SpanName, T>(name: Name, facts: Spans[Name], work: () => T): T
  /** The present span, as W3C writes it (`traceparent`), for what is carried to another process. */
  traceparent(): string | undefined
}

/** Where rooms find the tracer, if one was given. */
export interface TracerSlot {
  tracer: Tracer | undefined
}
