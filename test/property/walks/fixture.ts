// What an actor gives to its walk.
import type { setTimeout as sleep } from 'node:timers/promises'
import type { Holdfast } from 'holdfast'
import type { Random } from '../random.ts'

/** What is held, as somebody who believes in it sees it. */
export interface Holding {
  readonly held: boolean
  readonly signal: AbortSignal
  readonly fence: number | undefined
}

/** What an actor is told when it begins to walk. */
export interface Walk {
  schedule: number
  names: string[]
  holds: { long: number; longMs: number }
  seed: number
  flowCount: number
}

/** A wait, an abort, or neither. */
export interface Impatience {
  options: { wait?: number; signal?: AbortSignal }
  /** Takes the timer away again. */
  forget(): void
}

export interface Fixture {
  holdfast: Holdfast
  believe(handle: Holding, facts: object, random: Random, during: () => Promise<void>): Promise<void>
  keep(walk: Walk, random: Random): Promise<void>
  impatience(random: Random): Impatience
  sleep: typeof sleep
  write(line: object): void
}

export type Step = (stage: Fixture, walk: Walk, random: Random) => Promise<void>
