import type { Call, ContendedName, Holding, Participant, Wait } from './contended.js'
import type { ObservedLock } from './locks.js'

/** A wait that an instance recorded in the `wait` table. */
export interface RecordedWaitRow {
  instance: string
  instance_name: string | null
  host: string | null
  os_pid: number | null
  kind: 'lock' | 'lease' | 'permit'
  key: string
  namespace: string | null
  label: string | null
  mode: 'exclusive' | 'shared'
  holding: string[]
  since_ms: number
  for_ms: number
}

/** Lease of a name or, if `held` is false, the minimum hold that remains after the lease's release. */
export interface LeaseRow {
  key: string
  held: boolean
  instance: string
  instance_name: string | null
  host: string | null
  os_pid: number | null
  since_ms: number
  for_ms: number
  free_in_ms: number
}

/** The names of locks, leases and elections. These names share one set of keys. */
export class LockedNames {
  readonly #locks: readonly ObservedLock[]
  readonly #waits: readonly RecordedWaitRow[]
  readonly #leased: ReadonlyMap<string, LeaseRow>

  constructor(locks: readonly ObservedLock[], waits: readonly RecordedWaitRow[], leased: readonly LeaseRow[]) {
    this.#locks = locks
    this.#waits = waits
    this.#leased = new Map(leased.map((row) => [row.key, row]))
  }

  names(): ContendedName[] {
    const locksOf = groupBy(this.#locks, ({ key }) => key)
    const waitsOf = groupBy(this.#waits, ({ key }) => key)
    const contended = [...this.#locks.filter(({ granted }) => !granted), ...this.#waits]
    const first = new Map(contended.map((one) => [one.key, one]))
    return [...first.values()].map(({ key, namespace, label }) => {
      const locks = locksOf.get(key) ?? []
      const noted = waitsOf.get(key) ?? []
      const holders = this.#holders(key, locks)
      const waits = [...lockWaits(locks, noted), ...recordedWaits(noted.filter(isForLease))].sort(
        (a, b) => (b.forMs ?? 0) - (a.forMs ?? 0),
      )
      const kind = kindOf(label, holders, waits, noted)
      return {
        ...{ id: nameId(key), kind, key, namespace, label, queue: null, max: null, inUse: null },
        ...{ holders, waits, waiting: waits.length },
      }
    })
  }

  *participants(): Iterable<Participant> {
    const pids = new Map<string, number[]>()
    for (const lock of this.#locks) {
      const id = participantId(lock)
      const known = pids.get(id) ?? []
      if (lock.pid !== null && !known.includes(lock.pid)) known.push(lock.pid)
      pids.set(id, known)
    }
    for (const lock of this.#locks) {
      const { instance, instanceName, host, osPid, application, user } = lock
      const id = participantId(lock)
      const kind = instance === null ? 'session' : 'instance'
      yield { id, kind, instance, instanceName, host, osPid, pids: pids.get(id)!, application, user, job: null }
    }
    for (const row of [...this.#waits, ...this.#leased.values()]) yield instanceOf(row.instance, row)
  }

  #holders(key: string, locks: readonly ObservedLock[]): Holding[] {
    const lease = this.#leased.get(key)
    // A lock on a leased name belongs to a call that is trying to acquire the lease.
    if (lease) {
      const { held, instance, since_ms, for_ms, free_in_ms } = lease
      return [
        {
          ...{
            participant: held ? instance : noHolder.id,
            how: held ? 'lease' : 'min-hold',
            mode: 'exclusive',
            pid: null,
          },
          ...{ job: null, weight: 1, since: new Date(since_ms) },
          ...{ forMs: Math.round(for_ms), freeInMs: Math.round(free_in_ms) },
        },
      ]
    }
    return locks
      .filter(({ granted, pid }) => granted && pid !== null)
      .map((lock) => ({
        ...{ participant: participantId(lock), how: 'lock', mode: lock.mode, pid: lock.pid, job: null, weight: 1 },
        ...{ since: lock.since, forMs: lock.forMs, freeInMs: null },
      }))
  }
}

/** Participant that represents a minimum hold or a rate limit that blocks a name. */
export const noHolder: Participant = {
  id: 'no-holder',
  kind: 'no-holder',
  instance: null,
  instanceName: null,
  host: null,
  osPid: null,
  pids: [],
  application: null,
  user: null,
  job: null,
}

function participantId({ instance, pid }: Pick<ObservedLock, 'instance' | 'pid'>): string {
  return instance ?? `session ${pid}`
}

/** Columns of a row that identify an instance. */
type InstanceColumns = Pick<RecordedWaitRow, 'instance_name' | 'host' | 'os_pid'>

export function instanceOf(id: string, { instance_name, host, os_pid }: InstanceColumns): Participant {
  return { ...noHolder, id, kind: 'instance', instance: id, instanceName: instance_name, host, osPid: os_pid }
}

function nameId(key: string): string {
  return `name ${key}`
}

function lockWaits(locks: readonly ObservedLock[], noted: readonly RecordedWaitRow[]): Wait[] {
  const holders = new Set(locks.filter(({ granted }) => granted).map(({ pid }) => pid))
  const waiting = locks.filter(({ granted }) => !granted)
  const inside = noted.filter(
    ({ kind, instance, mode, holding }) =>
      // The call is waiting inside its process for a different call in the same instance, so the lock table does not
      // contain the wait.
      kind === 'lock' &&
      holding.length > 0 &&
      !waiting.some((lock) => lock.instance === instance && lock.mode === mode),
  )
  return [
    ...waiting.map((lock) => {
      const { instance, mode, pid, since, forMs, requests, blockedBy } = lock
      const before = locks.find((other) => other !== lock && other.pid !== null && blockedBy.includes(other.pid))
      const isHeldUp = blockedBy.some((one) => holders.has(one))
      const mine = noted.filter((wait) => wait.kind === 'lock' && wait.instance === instance && wait.mode === mode)
      return {
        ...{ participant: participantId(lock), mode, pid, weight: 1, since, forMs, requests, calls: mine.map(callOf) },
        behind: isHeldUp || !before ? null : participantId(before),
      }
    }),
    ...recordedWaits(inside),
  ]
}

/** Combines all of an instance's waits into one wait. */
function recordedWaits(waits: readonly RecordedWaitRow[]): Wait[] {
  return [...new Set(waits.map(({ instance }) => instance))].map((instance) => {
    const mine = waits.filter((wait) => wait.instance === instance)
    const { mode, since_ms, for_ms } = mine[0]!
    return {
      ...{ participant: instance, mode, pid: null, weight: 1, since: new Date(since_ms) },
      ...{ forMs: Math.round(for_ms), requests: mine.length, calls: mine.map(callOf), behind: null },
    }
  })
}

/**
 * Returns the names that a call holds. Each key may belong to a lock or to a limit, so both IDs are returned. The graph
 * keeps the ID that exists.
 */
export function callOf({ holding }: RecordedWaitRow): Call {
  return { holds: holding.flatMap((key) => [nameId(key), `limit ${key}`]) }
}

function kindOf(
  label: string | null,
  holders: readonly Holding[],
  waits: readonly Wait[],
  noted: readonly RecordedWaitRow[],
): ContendedName['kind'] {
  if (label?.startsWith('election/')) return 'election'
  const byLease = holders.length > 0 ? holders[0]!.how !== 'lock' : waits.length > 0 && noted.every(isForLease)
  return byLease ? 'lease' : 'lock'
}

const isForLease = ({ kind }: RecordedWaitRow) => kind === 'lease'

export function groupBy<Row>(all: readonly Row[], keyOf: (row: Row) => string): Map<string, Row[]> {
  const groups = new Map<string, Row[]>()
  for (const row of all) {
    const group = groups.get(keyOf(row))
    if (group) group.push(row)
    else groups.set(keyOf(row), [row])
  }
  return groups
}
