import type { NamedKey, SessionOwner } from './names.js'
import { type RawRow, readRow } from './rows.js'

export interface LockFilter {
  /** Key of the name, in decimal. */
  readonly key?: string | undefined
  readonly namespace?: string | undefined
}

/** A name that one session holds or waits for. */
export interface ObservedLock extends SessionOwner, NamedKey {
  /** How the session holds or wants the name. */
  readonly mode: 'exclusive' | 'shared'
  /** Whether the session holds the name. False if it waits. */
  readonly granted: boolean
  /** Server process of the session. Null for a wait that has no server process at the moment. */
  readonly pid: number | null
  /** Number of the session. Null for a session that does not belong to Holdfast. */
  readonly session: number | null
  /** Role of the session. */
  readonly user: string | null
  /** Address of the client. Null for a Unix socket. */
  readonly clientAddress: string | null
  /** Time of the grant, known after about 3 s, or start of the wait. */
  readonly since: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number | null
  /** Fence of the grant, known after about 3 s. */
  readonly fence: number | null
  /** Number of calls inside the process that wait together. */
  readonly requests: number
  /** Server processes that the session waits for. */
  readonly blockedBy: readonly number[]
}

/** A name that is leased, or kept taken after its lease. */
export interface ObservedLease extends NamedKey {
  /** Whether the lease is held. False if it was released and only its hold keeps the name taken. */
  readonly held: boolean
  /** Instance that holds or held the lease. */
  readonly instance: string
  /** Host of the instance. Null if the instance has no row of its own: without an anchor it needs none. */
  readonly host: string | null
  /** Operating system process of the instance. Null if the host is null. */
  readonly osPid: number | null
  /** Fence of the grant. */
  readonly fence: number
  /** Duration of the lease without a renewal, in milliseconds. */
  readonly ttlMs: number
  /** Time of the grant. */
  readonly since: Date
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number
  /** Milliseconds until the name is free, unless the lease is renewed. */
  readonly expiresInMs: number
  /** Whether a waiting call has asked to be notified of the release. */
  readonly hasWaiters: boolean
}

export function readLock(row: RawRow<ObservedLock>): ObservedLock {
  return readRow<ObservedLock>(row, 'since')
}

/** Sets `blockedBy` of waits without a session: they wait for all holders of the name. */
export function linkRecordedWaits(locks: ObservedLock[]): ObservedLock[] {
  return locks.map((lock) => {
    if (lock.granted || lock.pid !== null) return lock
    const holders = locks.filter(({ key, granted }) => granted && key === lock.key)
    return { ...lock, blockedBy: holders.map(({ pid }) => pid!) }
  })
}
