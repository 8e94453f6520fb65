// Everything that an instance provides to each room's workload.
import type { setTimeout as sleep } from 'node:timers/promises'
import type { Holdfast, Lease } from 'holdfast'
import type pg from 'pg'
import type { Random } from '../../test/property/random.ts'
import type { Write } from '../history.ts'

/** Handle to a hold, as its holder sees it. */
export interface Handle {
  readonly held: boolean
  readonly signal: AbortSignal
  readonly fence?: number
  readonly term?: number
  release?(): Promise<void>
}

/** Handle that can guard writes. */
export type GuardedHandle = Handle & Pick<Lease, 'guard'>

/** Options for a wait that may time out or be aborted. */
export interface RandomWait {
  options: { wait?: number; signal?: AbortSignal }
  /** Clears the abort timer. */
  clear(): void
}

export interface Fixture {
  holdfast: Holdfast
  /** Identifies the instance as a holder: the process id and, in a process with several instances, a number. */
  holder: string
  pool: pg.Pool
  transaction<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result>
  recordHold<Result>(
    handle: Handle,
    names: readonly string[],
    facts: object,
    during: (id: string) => Promise<Result>,
  ): Promise<Result | undefined>
  handleOf(run: { signal: AbortSignal; fence: number }): Handle
  pause(random: Random, signal?: AbortSignal, longShare?: number): Promise<void>
  randomWait(random: Random): RandomWait
  sleep: typeof sleep
  write: Write
  expiryMs: number
  anchor: 'required' | 'none'
  userError: symbol
}

/** A room's workload. Each of its flows repeats `step`. A workload without `step` runs in the background. */
export interface Workload {
  flows?: number
  step?(random: Random): Promise<void>
}
