// What an instance gives to what it does in each room.
import type { setTimeout as sleep } from 'node:timers/promises'
import type { Holdfast, Lease } from 'holdfast'
import type pg from 'pg'
import type { Random } from '../../test/property/random.ts'
import type { Write } from '../history.ts'

/** What is held, as somebody who believes in it sees it. */
export interface Holding {
  readonly held: boolean
  readonly signal: AbortSignal
  readonly fence?: number
  readonly term?: number
}

/** The same, with a guard for what is written under it. */
export type Guarded = Holding & Pick<Lease, 'guard'>

/** A wait, an abort, or neither. */
export interface Impatience {
  options: { wait?: number; signal?: AbortSignal }
  /** Takes the timer away again. */
  forget(): void
}

export interface Fixture {
  holdfast: Holdfast
  pool: pg.Pool
  transaction<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result>
  believe<Result>(
    handle: Holding,
    what: readonly string[],
    facts: object,
    during: () => Promise<Result>,
  ): Promise<Result | undefined>
  byItsSignal(run: { signal: AbortSignal; fence: number }): Holding
  keep(random: Random, signal?: AbortSignal, often?: number): Promise<void>
  impatience(random: Random): Impatience
  sleep: typeof sleep
  write: Write
  expiryMs: number
  anchor: 'required' | 'none'
  ofTheUser: symbol
}

/** What its flows take again and again; without it there are none. */
export interface Work {
  flows?: number
  step?(random: Random): Promise<void>
}
