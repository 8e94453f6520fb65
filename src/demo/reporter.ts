import type { Counts } from './counts.js'
import type { Verdict } from './proof.js'

/** Receives the demo's events. */
export interface DemoReporter {
  /** Seconds since the demo started. */
  readonly seconds: number
  report(event: DemoEvent): void
}

export type DemoEventKind =
  | 'started'
  | 'opened'
  | 'replaced'
  | 'tick'
  | 'report'
  | 'elected'
  | 'killed'
  | 'frozen'
  | 'thawed'
  | 'taken-over'
  | 'work'
  | 'without'
  | 'trouble'
  | 'died'
  | 'proof'
  | 'violation'
  | 'closing'
  | 'ended'

/** One of the demo's events. */
export interface DemoEvent {
  readonly event: DemoEventKind
  /** Short title of the event. */
  readonly title: string
  /** Instance that the event is about. */
  readonly instance?: string
  /** Work items that the event is about, such as `invoice 42`. */
  readonly works?: readonly string[]
  /** Duration in milliseconds. */
  readonly ms?: number
  /** Time of the event on the monotonic clock, if it is reported later. */
  readonly at?: number
  readonly proof?: readonly Verdict[]
  readonly counts?: Counts
  readonly text: string
}
