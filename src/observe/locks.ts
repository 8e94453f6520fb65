// Who holds names and who waits for them: as locks, and by lease.
import { type Raw, readRow } from './dates.js'

export interface LockFilter {
  /** In decimal. */
  readonly key?: string | undefined
  readonly namespace?: string | undefined
}

/** One session's part in one name: it holds it, or waits for it. */
export interface ObservedLock {
  readonly key: string
  /** Null, like the label, for a key that nobody registered: one that was locked by other means. */
  readonly namespace: string | null
  readonly label: string | null
  readonly mode: 'exclusive' | 'shared'
  readonly granted: boolean
  /** The server process; null for a wait that has none at the moment. */
  readonly pid: number | null
  /** The number of the session, when it is Holdfast's. */
  readonly session: number | null
  /** The instance, when it is Holdfast's. */
  readonly instance: string | null
  readonly host: string | null
  readonly osPid: number | null
  readonly application: string | null
  readonly user: string | null
  readonly clientAddress: string | null
  /** When it was granted, known after about 3 s; or since when it waits. */
  readonly since: Date | null
  /** The same as an age, by the database's clock. */
  readonly forMs: number | null
  /** The fence of the grant, known after about 3 s. */
  readonly fence: number | null
  /** How many calls inside the process wait together. */
  readonly requests: number
  /** The server processes that it waits for. */
  readonly blockedBy: readonly number[]
}

/** A name that is leased, or kept taken. */
export interface ObservedLease {
  readonly key: string
  /** Null, like the label, for a key that nobody registered. */
  readonly namespace: string | null
  readonly label: string | null
  /** False when it was given back, and only its hold keeps the name taken. */
  readonly held: boolean
  readonly instance: string
  /** Null, like the process, where the instance has no row of its own: without an anchor it needs none. */
  readonly host: string | null
  readonly osPid: number | null
  readonly fence: number
  /** How long it lasts without a renewal. */
  readonly ttlMs: number
  readonly since: Date
  /** The same as an age, by the database's clock. */
  readonly forMs: number
  /** When it is free unless it is renewed. */
  readonly expiresInMs: number
  /** Whether somebody waits for it who is to be told. */
  readonly wanted: boolean
}

export function readLock(row: Raw<ObservedLock>): ObservedLock {
  return readRow<ObservedLock>(row, 'since')
}

export function readLease(row: Raw<ObservedLease>): ObservedLease {
  return readRow<ObservedLease>(row, 'since')
}

/** A wait that is known from its note alone waits for all who hold the name. */
export function linkNoted(locks: ObservedLock[]): ObservedLock[] {
  return locks.map((lock) => {
    if (lock.granted || lock.pid !== null) return lock
    const holders = locks.filter(({ key, granted }) => granted && key === lock.key)
    return { ...lock, blockedBy: holders.map(({ pid }) => pid!) }
  })
}
