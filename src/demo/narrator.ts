import type { Verdict } from './proof.js'

/** Tells people, or a program, what happens in the demo. */
export interface Narrator {
  /** Seconds since the demo began. */
  readonly seconds: number
  tell(happening: Happening): void
}

export type DemoEvent =
  | 'begin'
  | 'opened'
  | 'tick'
  | 'report'
  | 'leads'
  | 'killed'
  | 'frozen'
  | 'thawed'
  | 'elsewhere'
  | 'work'
  | 'trouble'
  | 'died'
  | 'proof'
  | 'violation'
  | 'closes'
  | 'end'

/** One line of the story, as a program reads it. */
export interface Happening {
  readonly event: DemoEvent
  /** The instance that it is about. */
  readonly instance?: string
  /** The works that it is about, such as `invoice 42`. */
  readonly works?: readonly string[]
  /** How long it took. */
  readonly ms?: number
  readonly proof?: readonly Verdict[]
  readonly text: string
}
