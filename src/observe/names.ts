import { loadStatements, type Reader, type Statement } from '../postgres/index.js'
import { msOf } from './dates.js'

/** Of each kind at most so many are listed, in an overview too. */
export const mostListed = 200

/** Who takes part in a name. */
export interface Who {
  /** Null for a session that is not Holdfast's. */
  readonly instance: string | null
  readonly host: string | null
  readonly osPid: number | null
  readonly application: string | null
  readonly pid: number | null
}

export interface LockGlance {
  readonly key: string
  /** Null, like the label, for a key that nobody registered. */
  readonly namespace: string | null
  readonly label: string | null
  /** Null where it is only waited for. */
  readonly mode: 'exclusive' | 'shared' | null
  readonly holders: number
  /** Who has held it longest. */
  readonly holder: Who | null
  /** For how long, known after about 3 s. */
  readonly heldMs: number | null
  readonly fence: number | null
  /** How many calls wait for it. */
  readonly waiters: number
  /** Who has waited longest. */
  readonly waiter: Who | null
  readonly waitedMs: number | null
}

export interface LeaseGlance {
  readonly key: string
  readonly namespace: string | null
  readonly label: string | null
  /** False when it was given back, and only its hold keeps the name taken. */
  readonly held: boolean
  readonly holder: Who
  readonly fence: number
  readonly ttlMs: number
  /** Whether somebody waits for it. */
  readonly wanted: boolean
  readonly heldMs: number
  /** When it is free unless it is renewed. */
  readonly expiresInMs: number
}

export interface NamesFilter {
  readonly namespace?: string | undefined
  /** A text in the name, or in the key where there is none. */
  readonly search?: string | undefined
  /** How many locks, and how many leases, at most. Default 200. */
  readonly limit?: number | undefined
}

/** How many names are held and waited for. */
export interface NamesCounts {
  /** Names that are held as locks. */
  readonly held: number
  /** Names that somebody waits for. */
  readonly waitedFor: number
  /** Calls that wait for a lock. */
  readonly waiters: number
  readonly leased: number
}

/** The names that are held or waited for as a lock, and those that are leased. */
export interface NamesGlance {
  readonly at: Date
  /** Of all that fit, also those that are not listed. */
  readonly counts: NamesCounts
  readonly locks: readonly LockGlance[]
  readonly leases: readonly LeaseGlance[]
}

/** Reads the names alone, by the statement that reads them for the overview. */
export class Names {
  readonly #reader: Reader
  readonly #sql: Record<'fleet', Statement>

  constructor(reader: Reader, schema: string) {
    this.#reader = reader
    this.#sql = loadStatements(new URL('./overview.sql', import.meta.url), schema)
  }

  async read({ namespace, search, limit = mostListed }: NamesFilter): Promise<NamesGlance> {
    const values = [namespace ?? null, limit, search ?? null]
    const [row] = await this.#reader.read<{ answer: FoundNames }>(this.#sql.fleet.text, values)
    return readNames(row!.answer)
  }
}

/** As the statement answers. */
export interface FoundNames extends NamesCounts {
  now: number
  lockRows: LockRow[] | null
  leaseRows: LeaseRow[] | null
}

interface LockRow extends Omit<LockGlance, 'holder' | 'waiter'> {
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

interface LeaseRow extends Omit<LeaseGlance, 'holder'> {
  instance: string
  host: string | null
  osPid: number | null
}

export function readNames({ now, held, waitedFor, waiters, leased, lockRows, leaseRows }: FoundNames): NamesGlance {
  return {
    at: new Date(now),
    counts: { held, waitedFor, waiters, leased },
    locks: (lockRows ?? []).map(readLock),
    leases: (leaseRows ?? []).map(readLease),
  }
}

function readLock(row: LockRow): LockGlance {
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

function readLease({ instance, host, osPid, heldMs, expiresInMs, ...same }: LeaseRow): LeaseGlance {
  const holder = { instance, host, osPid, application: null, pid: null }
  return { ...same, holder, heldMs: Math.round(heldMs), expiresInMs: msOf(expiresInMs)! }
}
