// What an actor provides to the operations of its room.
import type { setTimeout as sleep } from 'node:timers/promises'
import type { Holdfast } from 'holdfast'
import type { Random } from '../random.ts'

/** Handle of a hold, as its holder sees it. */
export interface Handle {
  readonly held: boolean
  readonly signal: AbortSignal
  readonly fence: number | undefined
}

/** Order to an actor to start its operations. */
export interface Walk {
  schedule: number
  names: string[]
  holds: { long: number; longMs: number }
  seed: number
  flowCount: number
}

/** Options of a wait that may time out or be aborted. */
export interface RandomWait {
  options: { wait?: number; signal?: AbortSignal }
  /** Clears the timer of the abort. */
  clear(): void
}

export interface Fixture {
  holdfast: Holdfast
  recordHold(handle: Handle, facts: object, random: Random, during: () => Promise<void>): Promise<void>
  pause(walk: Walk, random: Random): Promise<void>
  randomWait(random: Random): RandomWait
  sleep: typeof sleep
  write(line: object): void
}

export type Step = (fixture: Fixture, walk: Walk, random: Random) => Promise<void>
