import { readRow } from './rows.js'

/** Maximum number of rows in each list of an overview. */
export const maxListed = 200

/** Key of a name. */
export interface NamedKey {
  /**
   * 64-bit key of the name, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the name. Null if the key is not registered, for example because a different program locked it. */
  readonly namespace: string | null
  /** The name. Null if the key is not registered. */
  readonly label: string | null
}

/** A session that holds a name or is waiting for a name. */
export interface SessionOwner {
  /** Instance of the session. Null for a session that does not belong to Holdfast. */
  readonly instance: string | null
  /** Name of the instance. */
  readonly instanceName: string | null
  /** Host of the instance. */
  readonly host: string | null
  /** Operating system process ID of the instance. */
  readonly osPid: number | null
  /** Application name of the session. */
  readonly application: string | null
  /** Server process of the session. */
  readonly pid: number | null
}

/** A name that sessions hold, or are waiting for, as a lock. */
export interface OverviewLock extends NamedKey {
  /** Lock mode in which the name is held. Null if no session holds the name. */
  readonly mode: 'exclusive' | 'shared' | null
  /** Number of sessions that hold the name. */
  readonly holders: number
  /** Session that has held the name for the longest time. Null if no session holds the name. */
  readonly holder: SessionOwner | null
  /** Duration of the longest hold in milliseconds, known after about 3 s. */
  readonly heldMs: number | null
  /** Fencing token of the grant, known after about 3 s. */
  readonly fence: number | null
  /** Number of calls that are waiting for the name. */
  readonly waiters: number
  /** Session that has been waiting for the longest time. Null if no session is waiting. */
  readonly waiter: SessionOwner | null
  /** Duration of the longest wait, in milliseconds. */
  readonly waitedMs: number | null
}

/** A name that is leased, or whose lease was released while its minimum hold still blocks the name. */
export interface OverviewLease extends NamedKey {
  /** Whether the lease is held. False if the lease was released and only its minimum hold still blocks the name. */
  readonly held: boolean
  /** Instance that holds or held the lease. */
  readonly holder: SessionOwner
  /** Fencing token of the grant. */
  readonly fence: number
  /** Time after which the lease expires if it is not renewed, in milliseconds. */
  readonly ttlMs: number
  /** Whether a waiting call has requested a notification about the release. */
  readonly hasWaiters: boolean
  /** Milliseconds since the grant. */
  readonly heldMs: number
  /** Milliseconds until the name becomes free if the lease is not renewed. */
  readonly expiresInMs: number
}

export interface NamesFilter {
  readonly namespace?: string | undefined
  /** Text that must occur in the name, or in the key if the name is not registered. */
  readonly search?: string | undefined
  /** Maximum number of locks, and maximum number of leases. Default 200. */
  readonly limit?: number | undefined
  /** Number of locks and number of leases to skip. Default 0. */
  readonly offset?: number | undefined
}

/** Number of names that are held, and number of names that sessions are waiting for. */
export interface NamesCounts {
  /** Number of names that are held as locks. */
  readonly held: number
  /** Number of names that sessions are waiting for. */
  readonly waitedFor: number
  /** Number of calls that are waiting for a lock. */
  readonly waiters: number
  /** Number of names that are leased, or that a minimum hold still blocks after the lease's release. */
  readonly leased: number
}

/** Names that sessions hold, or are waiting for, as locks, and names that are leased. */
export interface NamesOverview {
  readonly at: Date
  /** Counts of all matching names, including names that are not listed. */
  readonly counts: NamesCounts
  readonly locks: readonly OverviewLock[]
  readonly leases: readonly OverviewLease[]
}

/** Document that the `fleet` statement returns. */
export interface NamesDocument extends NamesCounts {
  now: number
  lockRows: OverviewLock[] | null
  leaseRows: OverviewLease[] | null
}

export function readNames({
  now,
  held,
  waitedFor,
  waiters,
  leased,
  lockRows,
  leaseRows,
}: NamesDocument): NamesOverview {
  return {
    at: new Date(now),
    counts: { held, waitedFor, waiters, leased },
    locks: (lockRows ?? []).map((row) => readRow<OverviewLock>(row)),
    leases: (leaseRows ?? []).map((row) => readRow<OverviewLease>(row)),
  }
}
