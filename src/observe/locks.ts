// Who holds names and who waits for them: as locks, and by lease.
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

export interface LockRow {
  key: string
  namespace: string | null
  label: string | null
  mode: 'exclusive' | 'shared'
  granted: boolean
  pid: number | null
  session: number | null
  instance: string | null
  host: string | null
  os_pid: number | null
  application_name: string | null
  username: string | null
  client_address: string | null
  since_ms: number | null
  for_ms: number | null
  fence: string | null
  requests: number
  blocked_by: number[]
}

export interface LeaseRow {
  key: string
  namespace: string | null
  label: string | null
  held: boolean
  instance: string
  host: string | null
  os_pid: number | null
  fence: string
  ttl_ms: number
  since_ms: number
  for_ms: number
  expires_in_ms: number
  wanted: boolean
}

export function readLock(row: LockRow): ObservedLock {
  const { os_pid, application_name, username, client_address, since_ms, for_ms, fence, blocked_by, ...same } = row
  return {
    ...same,
    osPid: os_pid,
    application: application_name || null,
    user: username,
    clientAddress: client_address,
    since: since_ms === null ? null : new Date(since_ms),
    forMs: for_ms === null ? null : Math.round(for_ms),
    fence: fence === null ? null : Number(fence),
    blockedBy: blocked_by,
  }
}

export function readLease(row: LeaseRow): ObservedLease {
  const { os_pid, fence, ttl_ms, since_ms, for_ms, expires_in_ms, ...same } = row
  return {
    ...same,
    osPid: os_pid,
    fence: Number(fence),
    ttlMs: ttl_ms,
    since: new Date(since_ms),
    forMs: Math.round(for_ms),
    expiresInMs: Math.round(expires_in_ms),
  }
}

/** A wait that is known from its note alone waits for all who hold the name. */
export function linkNoted(locks: ObservedLock[]): ObservedLock[] {
  return locks.map((lock) => {
    if (lock.granted || lock.pid !== null) return lock
    const holders = locks.filter(({ key, granted }) => granted && key === lock.key)
    return { ...lock, blockedBy: holders.map(({ pid }) => pid!) }
  })
}
