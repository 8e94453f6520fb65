import type { Verdict } from './proof.js'

/** Tells people, or a program, what happens in the demo. */
export interface DemoReporter {
  /** Seconds since the demo began. */
  readonly seconds: number
  report(event: DemoEvent): void
}

export type DemoEventKind =
  | 'started'
  | 'opened'
  | 'tick'
  | 'report'
  | 'elected'
  | 'killed'
  | 'frozen'
  | 'thawed'
  | 'taken-over'
  | 'work'
  | 'trouble'
  | 'died'
  | 'proof'
  | 'violation'
  | 'closing'
  | 'ended'

/** One line of the story, as a program reads it. */
export interface DemoEvent {
  readonly event: DemoEventKind
  /** The instance that it is about. */
  readonly instance?: string
  /** The works that it is about, such as `invoice 42`. */
  readonly works?: readonly string[]
  /** How long it took. */
  readonly ms?: number
  readonly proof?: readonly Verdict[]
  readonly text: string
}
