import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { msOf } from './dates.js'

/** Of each kind at most so many are listed, in an overview too. */
export const maxListed = 200

/** A session that holds or waits for a name. */
export interface SessionOwner {
  /** Instance of the session. Null for a session that does not belong to Holdfast. */
  readonly instance: string | null
  /** Host of the instance. */
  readonly host: string | null
  /** Operating system process of the instance. */
  readonly osPid: number | null
  /** Application name of the session. */
  readonly application: string | null
  /** Server process of the session. */
  readonly pid: number | null
}

/** A name that sessions hold or wait for as a lock. */
export interface OverviewLock {
  /**
   * 64-bit key of the name, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the name. Null for a key that is not registered. */
  readonly namespace: string | null
  /** The name. Null for a key that is not registered. */
  readonly label: string | null
  /** How the name is held. Null if sessions only wait for it. */
  readonly mode: 'exclusive' | 'shared' | null
  /** Number of sessions that hold the name. */
  readonly holders: number
  /** Session that has held the name longest. Null if no session holds it. */
  readonly holder: SessionOwner | null
  /** Duration of that hold in milliseconds, known after about 3 s. */
  readonly heldMs: number | null
  /** Fence of the grant, known after about 3 s. */
  readonly fence: number | null
  /** Number of calls that wait for the name. */
  readonly waiters: number
  /** Session that has waited longest. Null if no session waits. */
  readonly waiter: SessionOwner | null
  /** Duration of that wait, in milliseconds. */
  readonly waitedMs: number | null
}

/** A name that is leased, or kept taken after its lease. */
export interface OverviewLease {
  /**
   * 64-bit key of the name, in decimal.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the name. Null for a key that is not registered. */
  readonly namespace: string | null
  /** The name. Null for a key that is not registered. */
  readonly label: string | null
  /** Whether the lease is held. False if it was released and only its hold keeps the name taken. */
  readonly held: boolean
  /** Instance that holds or held the lease. */
  readonly holder: SessionOwner
  /** Fence of the grant. */
  readonly fence: number
  /** Duration of the lease without a renewal, in milliseconds. */
  readonly ttlMs: number
  /** Whether a waiting call has asked to be notified of the release. */
  readonly hasWaiters: boolean
  /** Milliseconds since the grant. */
  readonly heldMs: number
  /** Milliseconds until the name is free, unless the lease is renewed. */
  readonly expiresInMs: number
}

export interface NamesFilter {
  readonly namespace?: string | undefined
  /** A text in the name, or in the key where there is none. */
  readonly search?: string | undefined
  /** How many locks, and how many leases, at most. Default 200. */
  readonly limit?: number | undefined
}

/** Number of names that are held and waited for. */
export interface NamesCounts {
  /** Number of names that are held as locks. */
  readonly held: number
  /** Number of names that sessions wait for. */
  readonly waitedFor: number
  /** Number of calls that wait for a lock. */
  readonly waiters: number
  /** Number of names that are leased, or kept taken after their lease. */
  readonly leased: number
}

/** The names that are held or waited for as a lock, and those that are leased. */
export interface NamesOverview {
  readonly at: Date
  /** Of all that fit, also those that are not listed. */
  readonly counts: NamesCounts
  readonly locks: readonly OverviewLock[]
  readonly leases: readonly OverviewLease[]
}

/** Reads the names alone, by the statement that reads them for the overview. */
export class NamesReader {
  readonly #reader: Reader
  readonly #sql: Record<'fleet', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./overview.sql', import.meta.url), schema)
  }

  async read({ namespace, search, limit = maxListed }: NamesFilter): Promise<NamesOverview> {
    const values = [namespace ?? null, limit, search ?? null]
    const [row] = await this.#reader.read<{ answer: NamesAnswer }>(this.#sql.fleet.text, values)
    return readNames(row!.answer)
  }
}

/** Answer of the statement. */
export interface NamesAnswer extends NamesCounts {
  now: number
  lockRows: RawLockRow[] | null
  leaseRows: RawLeaseRow[] | null
}

interface RawLockRow extends Omit<OverviewLock, 'holder' | 'waiter'> {
  holderInstance: string | null
  holderHost: string | null
  holderProcess: number | null
  holderApplication: string | null
  holderPid: number | null
  waiterInstance: string | null
  waiterHost: string | null
  waiterProcess: number | null
  waiterApplication: string | null
  waiterPid: number | null
}

interface RawLeaseRow extends Omit<OverviewLease, 'holder'> {
  instance: string
  host: string | null
  osPid: number | null
}

export function readNames({ now, held, waitedFor, waiters, leased, lockRows, leaseRows }: NamesAnswer): NamesOverview {
  return {
    at: new Date(now),
    counts: { held, waitedFor, waiters, leased },
    locks: (lockRows ?? []).map(readLock),
    leases: (leaseRows ?? []).map(readLease),
  }
}

function readLock(row: RawLockRow): OverviewLock {
  const { key, namespace, label, mode, holders, heldMs, fence, waiters, waitedMs } = row
  const holder = {
    instance: row.holderInstance,
    host: row.holderHost,
    osPid: row.holderProcess,
    application: row.holderApplication,
    pid: row.holderPid,
  }
  const waiter = {
    instance: row.waiterInstance,
    host: row.waiterHost,
    osPid: row.waiterProcess,
    application: row.waiterApplication,
    pid: row.waiterPid,
  }
  return {
    key,
    namespace,
    label,
    mode,
    holders,
    holder: holders > 0 ? holder : null,
    heldMs: msOf(heldMs),
    fence,
    waiters,
    waiter: waiters > 0 ? waiter : null,
    waitedMs: msOf(waitedMs),
  }
}

function readLease({ instance, host, osPid, heldMs, expiresInMs, ...same }: RawLeaseRow): OverviewLease {
  const holder = { instance, host, osPid, application: null, pid: null }
  return { ...same, holder, heldMs: Math.round(heldMs), expiresInMs: msOf(expiresInMs)! }
}
