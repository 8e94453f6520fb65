import type { NamedKey, SessionOwner } from './names.js'
import { type RawRow, readRow } from './rows.js'

export interface LockFilter {
  /** Key of the name, in decimal. */
  readonly key?: string | undefined
  readonly namespace?: string | undefined
}

/** A name that one session holds or waits for. */
export interface ObservedLock extends SessionOwner, NamedKey {
  /** Mode in which the session holds or wants the name. */
  readonly mode: 'exclusive' | 'shared'
  /** Whether the session holds the name. False if it waits. */
  readonly granted: boolean
  /** Server process of the session. Null for a wait that currently has no server process. */
  readonly pid: number | null
  /** Number of the session. Null for a session that does not belong to Holdfast. */
  readonly session: number | null
  /** Role of the session. */
  readonly user: string | null
  /** Address of the client. Null for a Unix socket. */
  readonly clientAddress: string | null
  /** Time of the grant (known after about 3 s), or start of the wait. */
  readonly since: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number | null
  /** Fencing token of the grant, known after about 3 s. */
  readonly fence: number | null
  /** Number of calls in the process that wait for the name. */
  readonly requests: number
  /** Server processes that the session waits for. */
  readonly blockedBy: readonly number[]
}

/** A name that is leased, or that a minimum hold blocks after the release of its lease. */
export interface ObservedLease extends NamedKey {
  /** Whether the lease is held. False if the lease was released and only its minimum hold still blocks the name. */
  readonly held: boolean
  /** Instance that holds or held the lease. */
  readonly instance: string
  /** Host of the instance. Null if the instance has no row. An instance without an anchor does not need a row. */
  readonly host: string | null
  /** Operating system process ID of the instance. Null if the host is null. */
  readonly osPid: number | null
  /** Fencing token of the grant. */
  readonly fence: number
  /** Duration of the lease without a renewal, in milliseconds. */
  readonly ttlMs: number
  /** Time of the grant. */
  readonly since: Date
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number
  /** Milliseconds until the name is free, unless the lease is renewed. */
  readonly expiresInMs: number
  /** Whether a waiting call has requested a notification of the release. */
  readonly hasWaiters: boolean
}

export function readLock(row: RawRow<ObservedLock>): ObservedLock {
  return readRow<ObservedLock>(row, 'since')
}

/** Sets `blockedBy` for waits without a session: such a wait is blocked by all holders of the name. */
export function linkRecordedWaits(locks: ObservedLock[]): ObservedLock[] {
  return locks.map((lock) => {
    if (lock.granted || lock.pid !== null) return lock
    const holders = locks.filter(({ key, granted }) => granted && key === lock.key)
    return { ...lock, blockedBy: holders.map(({ pid }) => pid!) }
  })
}
