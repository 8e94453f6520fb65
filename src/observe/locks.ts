import type { NamedKey, SessionOwner } from './names.js'
import { type RawRow, readRow } from './rows.js'

export interface LockFilter {
  /** Key of the name, in decimal. */
  readonly key?: string | undefined
  readonly namespace?: string | undefined
}

/** A name that one session holds or is waiting for. */
export interface ObservedLock extends SessionOwner, NamedKey {
  /** Lock mode that the session holds or requests. */
  readonly mode: 'exclusive' | 'shared'
  /** Whether the session holds the name. False if the session is waiting. */
  readonly granted: boolean
  /** Server process of the session. Null for a wait that has no server process at the moment. */
  readonly pid: number | null
  /** Number of the session. Null for a session that does not belong to Holdfast. */
  readonly session: number | null
  /** Database role of the session. */
  readonly user: string | null
  /** Address of the client. Null for a Unix socket. */
  readonly clientAddress: string | null
  /** Time of the grant (known after about 3 s), or start of the wait. */
  readonly since: Date | null
  /** Milliseconds since the grant or the start of the wait, according to the database clock. */
  readonly forMs: number | null
  /** Fencing token of the grant, known after about 3 s. */
  readonly fence: number | null
  /** Number of calls in the process that are waiting for the name. */
  readonly requests: number
  /** Server processes that block the session. */
  readonly blockedBy: readonly number[]
}

/** A name that is leased, or whose lease was released while its minimum hold still blocks the name. */
export interface ObservedLease extends NamedKey {
  /** Whether the lease is held. False if the lease was released and only its minimum hold still blocks the name. */
  readonly held: boolean
  /** Instance that holds or held the lease. */
  readonly instance: string
  /** Name of the instance. Null if the instance is no longer known. */
  readonly instanceName: string | null
  /**
   * Host of the instance. Null if the instance has no row, because an instance without an anchor does not always need a
   * row.
   */
  readonly host: string | null
  /** Operating system process ID of the instance. Null if the host is null. */
  readonly osPid: number | null
  /** Fencing token of the grant. */
  readonly fence: number
  /** Time after which the lease expires if it is not renewed, in milliseconds. */
  readonly ttlMs: number
  /** Time of the grant. */
  readonly since: Date
  /** Milliseconds since the grant, according to the database clock. */
  readonly forMs: number
  /** Milliseconds until the name becomes free if the lease is not renewed. */
  readonly expiresInMs: number
  /** Whether a waiting call has requested a notification about the release. */
  readonly hasWaiters: boolean
}

export function readLock(row: RawRow<ObservedLock>): ObservedLock {
  return readRow<ObservedLock>(row, 'since')
}

/** Sets `blockedBy` for waits without a session. All holders of the name block such a wait. */
export function linkRecordedWaits(locks: ObservedLock[]): ObservedLock[] {
  return locks.map((lock) => {
    if (lock.granted || lock.pid !== null) return lock
    const holders = locks.filter(({ key, granted }) => granted && key === lock.key)
    return { ...lock, blockedBy: holders.map(({ pid }) => pid!) }
  })
}
