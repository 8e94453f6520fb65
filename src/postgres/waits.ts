import { type Key, Poller } from '../base/index.js'
import type { Anchor } from './anchor.js'
import type { Database } from './database.js'
import { DeadlockError } from './errors.js'
import type { NameRegistry } from './names.js'
import type { Presence } from './presence.js'
import { responseTimeoutMs } from './response-timeout.js'
import { arrayLiteral, loadStatements, type Statement } from './statements.js'

/** A call that is waiting in a module. */
export interface WaitingCall {
  readonly kind: 'lock' | 'lease' | 'permit'
  readonly key: Key
  readonly requestedAt: number
  readonly request: {
    readonly mode?: 'exclusive' | 'shared'
    /** The keys that the same flow of control holds. */
    readonly holding?: readonly string[] | undefined
  }
  /** Rejects the call. If a call has no `fail`, deadlock detection does not end it. */
  readonly fail?: (error: unknown) => void
}

interface WaitTrackerOptions {
  readonly anchor: Anchor | undefined
  /** Database that runs the statements if the anchor has no session, or if there is no anchor. */
  readonly keepaliveDatabase: Database
  readonly names: NameRegistry
  readonly presence: Pick<Presence, 'instanceId' | 'name'>
  readonly schema: string
}

const writeEveryMs = 1_000
const longWaitMs = 1_000
/** Time for which a wait record stays valid if the instance has no anchor and does not renew the record. */
const validMs = 10_000
const renewEveryMs = 4_000

/**
 * Records in `holdfast.wait` which calls have been waiting for longer than 1 s. Nearly all waits are shorter and cost no statement.
 *
 * The records show people which call is waiting for which holder. The records also reveal deadlocks that PostgreSQL cannot detect, because
 * a name is held on one session and awaited on another session, or is held by a lease. Each record contains the keys that the same flow of
 * control holds, so waits can be followed through the fleet. A cycle that is found twice, 1 s apart, is a deadlock: its youngest call fails
 * with a `DeadlockError`.
 */
export class WaitTracker {
  readonly #options: WaitTrackerOptions
  readonly #sql: Record<'record_waits' | 'renew_waits' | 'delete_waits' | 'read_waits', Statement>
  readonly #sources: (() => Iterable<WaitingCall>)[] = []
  readonly #recorded = new Map<WaitingCall, number>()
  /** Maps each call to the last cycle that was found through the call. */
  readonly #suspectedCycles = new Map<WaitingCall, string>()
  /** All calls that are waiting for a name, including short waits. */
  readonly #queued = new Set<WaitingCall>()
  #onWait: ((key: Key, by: 1 | -1) => void) | undefined
  #requests = 0
  #renewedAt = 0
  // Errors need no handling, because the next poll retries.
  readonly #poller = new Poller({
    isNeeded: () => this.#recorded.size > 0 || this.#waiting().next().done === false,
    poll: () => this.#write(),
    pauseMs: () => writeEveryMs,
    pausesFirst: true,
  })

  constructor(options: WaitTrackerOptions) {
    this.#options = options
    this.#sql = loadStatements(new URL('./waits.sql', import.meta.url), options.schema)
  }

  /**
   * Adds a module. `source` returns the module's waiting calls. Each call must be represented by the same object during
   * its whole wait.
   */
  addSource(source: () => Iterable<WaitingCall>): void {
    this.#sources.push(source)
  }

  /** Calls the listener whenever a call starts or stops waiting for a name. */
  onWait(listener: (key: Key, by: 1 | -1) => void): void {
    this.#onWait = listener
  }

  /** Reports that a call is waiting for a name. Returns false, and changes nothing, if this was already reported. */
  waitStarted(waiting: WaitingCall): boolean {
    if (this.#queued.has(waiting)) return false
    this.#queued.add(waiting)
    this.#onWait?.(waiting.key, 1)
    return true
  }

  /** Reports that a call is no longer waiting. Idempotent. */
  waitEnded(waiting: WaitingCall): void {
    if (this.#queued.delete(waiting)) this.#onWait?.(waiting.key, -1)
  }

  /** Starts polling. Invoke this method when a call may have to wait. Polling continues while there are records to write or to delete. */
  scheduleWrite(): void {
    this.#poller.start()
  }

  /** Stops polling. Invoke this method once no calls are waiting. */
  async close(): Promise<void> {
    void this.#poller.close()
    if (this.#recorded.size > 0) await this.#write().catch(() => {})
  }

  *#waiting(): Generator<WaitingCall> {
    for (const source of this.#sources) yield* source()
  }

  async #write(): Promise<void> {
    const { anchor } = this.#options
    if (anchor && !anchor.session) return
    const now = performance.now()
    const present = new Set([...this.#waiting()].filter(({ requestedAt }) => now - requestedAt > longWaitMs))
    await this.#delete([...this.#recorded.keys()].filter((waiting) => !present.has(waiting)))
    await this.#record([...present].filter((waiting) => !this.#recorded.has(waiting)))
    await this.#renew()
    await this.#failDeadlocks([...present])
  }

  async #delete(gone: readonly WaitingCall[]): Promise<void> {
    if (gone.length === 0) return
    await this.#run('delete_waits', [
      this.#options.presence.instanceId,
      gone.map((waiting) => this.#recorded.get(waiting)),
    ])
    for (const waiting of gone) {
      this.#recorded.delete(waiting)
      this.#suspectedCycles.delete(waiting)
    }
  }

  async #record(fresh: readonly WaitingCall[]): Promise<void> {
    if (fresh.length === 0) return
    // A recorded wait is shown to people, so its name is registered first.
    await this.#options.names.flush()
    const now = performance.now()
    const requests = fresh.map(() => ++this.#requests)
    await this.#run('record_waits', [
      this.#options.presence.instanceId,
      requests,
      fresh.map(({ key }) => key.key),
      fresh.map(({ kind }) => kind),
      fresh.map(({ request }) => request.mode ?? 'exclusive'),
      fresh.map(({ requestedAt }) => now - requestedAt),
      fresh.map(({ request }) => arrayLiteral(request.holding ?? [])),
      this.#options.anchor ? null : validMs,
      this.#options.presence.name,
    ])
    for (const [at, waiting] of fresh.entries()) this.#recorded.set(waiting, requests[at]!)
  }

  async #renew(): Promise<void> {
    if (this.#options.anchor || this.#recorded.size === 0 || performance.now() - this.#renewedAt < renewEveryMs) return
    await this.#run('renew_waits', [this.#options.presence.instanceId, validMs])
    this.#renewedAt = performance.now()
  }

  /**
   * Fails the calls that are the youngest call of a deadlock. The calls are checked from the oldest to the youngest. A call that fails will
   * release its names, so younger calls are not checked against it.
   */
  async #failDeadlocks(present: readonly WaitingCall[]): Promise<void> {
    // Only a call that holds a name can be part of a cycle.
    const candidates = present.filter(({ fail, request }) => fail && request.holding?.length)
    if (candidates.length === 0) return
    const { instanceId } = this.#options.presence
    const ownCalls = new Map(candidates.map((waiting) => [this.#recorded.get(waiting), waiting]))
    const holders = new Map<string, WaitRecord[]>()
    for (const record of (await this.#run('read_waits', [])).map(waitRecord)) {
      const waiting = record.instance === instanceId ? ownCalls.get(record.request) : undefined
      const cycle = waiting && findCycle(record, holders)
      if (cycle && this.#isConfirmed(waiting, cycle)) {
        waiting.fail!(new DeadlockError(cycle.map(({ label, name }) => `${name} waits for "${label}"`)))
        continue
      }
      for (const key of record.holding) {
        if (holders.has(key)) holders.get(key)!.push(record)
        else holders.set(key, [record])
      }
    }
  }

  /** Returns true if the previous search has found the same cycle. */
  #isConfirmed(waiting: WaitingCall, cycle: readonly WaitRecord[]): boolean {
    const cycleKey = cycle.map(({ instance, request }) => `${instance} ${request}`).join(', ')
    if (this.#suspectedCycles.get(waiting) === cycleKey) return true
    this.#suspectedCycles.set(waiting, cycleKey)
    return false
  }

  async #run(name: 'record_waits' | 'renew_waits' | 'delete_waits' | 'read_waits', values: unknown[]) {
    const { anchor, keepaliveDatabase } = this.#options
    if (anchor?.session) return (await anchor.session.run(this.#sql[name], values)) as (string | null)[][]
    const rows = await keepaliveDatabase.query<Record<string, string | null>>(
      this.#sql[name].text,
      values,
      responseTimeoutMs,
    )
    return rows.map((row) => Object.values(row))
  }
}

/** A waiting call of any instance that holds names. */
interface WaitRecord {
  readonly instance: string
  readonly request: number
  /** The key that the call waits for. */
  readonly key: string
  readonly holding: readonly string[]
  readonly label: string
  /** Name of the instance. */
  readonly name: string
}

function waitRecord([instance, request, key, holding, label, name]: readonly (string | null)[]): WaitRecord {
  return {
    instance: instance!,
    request: Number(request),
    key: key!,
    holding: holding!.split(' '),
    label: label!,
    name: name ?? `instance ${instance}`,
  }
}

/**
 * Returns a shortest cycle of waits through `start`, or undefined. Each call in the cycle waits for a name that the next call holds. The
 * search is breadth-first and visits each key once, so its time does not depend on the number of paths.
 */
function findCycle(start: WaitRecord, holders: ReadonlyMap<string, readonly WaitRecord[]>): WaitRecord[] | undefined {
  const visited = new Set<string>()
  const paths = [[start]]
  for (const path of paths) {
    const { key } = path.at(-1)!
    if (start.holding.includes(key)) return path
    if (visited.has(key)) continue
    visited.add(key)
    for (const holder of holders.get(key) ?? []) paths.push([...path, holder])
  }
  return undefined
}
