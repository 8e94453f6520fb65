import { type Key, Poller } from '../base/index.js'
import type { Anchor } from './anchor.js'
import { answerWithinMs } from './deadline.js'
import { DeadlockError } from './errors.js'
import type { Database } from './port.js'
import { arrayOf, loadStatements, type Statement } from './statements.js'

/** One call that waits, as its room knows it. */
export interface Waiting {
  readonly kind: 'lock' | 'lease' | 'permit'
  readonly key: Key
  readonly askedAt: number
  readonly ask: {
    readonly mode?: 'exclusive' | 'shared'
    /** The keys that the same flow of control holds. */
    readonly holding?: readonly string[] | undefined
  }
  /** Ends the wait with this error. A wait without it is left alone, whatever it is part of. */
  readonly fail?: (error: unknown) => void
}

interface WaitsOptions {
  readonly anchor: Anchor | undefined
  /** Used where there is no anchor. */
  readonly lifeline: Database
  readonly instanceId: string
  readonly schema: string
}

const everyMs = 1_000
const longWaitMs = 1_000
/** Without an anchor nobody vouches for the notes of a dead instance: they are believed for so long. */
const believedMs = 10_000
const renewEveryMs = 4_000

/**
 * Writes down the waits of this instance that outlive a second. Short ones, which are nearly all, cost nothing: the rooms
 * are only asked who waits, once a second, while anybody does.
 *
 * The notes tell people who waits for whom. And they find deadlocks that PostgreSQL cannot see, because a name is held on
 * one session and waited for on another, or is held by lease: a wait is noted with what the same flow of control holds, so
 * that who waits for whom can be followed through the fleet. A circle that is seen twice, a second apart, is a deadlock;
 * its youngest side fails with a `DeadlockError`.
 */
export class Waits {
  readonly #options: WaitsOptions
  readonly #sql: Record<'note_waits' | 'renew_waits' | 'forget_waits' | 'find_cycle', Statement>
  readonly #sources: (() => Iterable<Waiting>)[] = []
  readonly #noted = new Map<Waiting, number>()
  /** The circle that each waiting call was seen in last. */
  readonly #suspicions = new Map<Waiting, string>()
  /** The calls that stand in line for a name, however short a while. */
  readonly #inLine = new Set<Waiting>()
  #tellWait: ((key: Key, by: 1 | -1) => void) | undefined
  #requests = 0
  #renewedAt = 0
  // The database being away costs no more than a note that comes late.
  readonly #poller = new Poller({
    isNeeded: () => this.#noted.size > 0 || this.#waiting().next().done === false,
    poll: () => this.#write(),
    pauseMs: () => everyMs,
    pausesFirst: true,
  })

  constructor(options: WaitsOptions) {
    this.#options = options
    this.#sql = loadStatements(new URL('./waits.sql', import.meta.url), options.schema)
  }

  /** A room that tells who waits in it now: each by the same object for as long as it waits. */
  watch(source: () => Iterable<Waiting>): void {
    this.#sources.push(source)
  }

  /** Calls back when a call begins to stand in line for a name, and when it does no more. */
  onWait(tell: (key: Key, by: 1 | -1) => void): void {
    this.#tellWait = tell
  }

  /** A name is taken, and a call waits for it. To say it again is harmless. */
  began(waiting: Waiting): void {
    if (this.#inLine.has(waiting)) return
    this.#inLine.add(waiting)
    this.#tellWait?.(waiting.key, 1)
  }

  /** The call does not wait any more, if it did. */
  over(waiting: Waiting): void {
    if (this.#inLine.delete(waiting)) this.#tellWait?.(waiting.key, -1)
  }

  /** Called whenever somebody may have to wait; runs while there is something to write down or to strike out. */
  wake(): void {
    this.#poller.start()
  }

  /** To be called when nobody waits any more. */
  async close(): Promise<void> {
    void this.#poller.close()
    if (this.#noted.size > 0) await this.#write().catch(() => {})
  }

  *#waiting(): Generator<Waiting> {
    for (const source of this.#sources) yield* source()
  }

  async #write(): Promise<void> {
    const { anchor } = this.#options
    if (anchor && !anchor.session) return
    const now = performance.now()
    const present = new Set([...this.#waiting()].filter(({ askedAt }) => now - askedAt > longWaitMs))
    await this.#forget([...this.#noted.keys()].filter((waiting) => !present.has(waiting)))
    await this.#note([...present].filter((waiting) => !this.#noted.has(waiting)))
    await this.#renew()
    for (const waiting of present) await this.#look(waiting)
  }

  async #forget(gone: readonly Waiting[]): Promise<void> {
    if (gone.length === 0) return
    await this.#run('forget_waits', [this.#options.instanceId, gone.map((waiting) => this.#noted.get(waiting))])
    for (const waiting of gone) {
      this.#noted.delete(waiting)
      this.#suspicions.delete(waiting)
    }
  }

  async #note(fresh: readonly Waiting[]): Promise<void> {
    if (fresh.length === 0) return
    const now = performance.now()
    const requests = fresh.map(() => ++this.#requests)
    await this.#run('note_waits', [
      this.#options.instanceId,
      requests,
      fresh.map(({ key }) => key.key),
      fresh.map(({ kind }) => kind),
      fresh.map(({ ask }) => ask.mode ?? 'exclusive'),
      fresh.map(({ askedAt }) => now - askedAt),
      fresh.map(({ ask }) => arrayOf(ask.holding ?? [])),
      this.#options.anchor ? null : believedMs,
    ])
    for (const [at, waiting] of fresh.entries()) this.#noted.set(waiting, requests[at]!)
  }

  async #renew(): Promise<void> {
    if (this.#options.anchor || this.#noted.size === 0 || performance.now() - this.#renewedAt < renewEveryMs) return
    await this.#run('renew_waits', [this.#options.instanceId, believedMs])
    this.#renewedAt = performance.now()
  }

  /** Looks for a circle through one wait. Only who holds something while it waits can close one. */
  async #look(waiting: Waiting): Promise<void> {
    if (!waiting.fail || !waiting.ask.holding?.length) return
    const request = this.#noted.get(waiting)
    const sides = await this.#run('find_cycle', [this.#options.instanceId, request])
    const [youngest] = sides
    if (youngest?.[0] !== this.#options.instanceId || Number(youngest[1]) !== request) return
    const circle = sides.map(([instance, id]) => `${instance} ${id}`).join(', ')
    if (this.#suspicions.get(waiting) !== circle) {
      this.#suspicions.set(waiting, circle)
      return
    }
    const cycle = sides.map(
      ([instance, , label, host, pid]) =>
        `instance ${instance}${host === null ? '' : ` (${host}, process ${pid})`} waits for "${label}"`,
    )
    waiting.fail(new DeadlockError(cycle))
  }

  async #run(name: 'note_waits' | 'renew_waits' | 'forget_waits' | 'find_cycle', values: unknown[]) {
    const { anchor, lifeline } = this.#options
    if (anchor?.session) return (await anchor.session.run(this.#sql[name], values)) as (string | null)[][]
    const rows = await lifeline.query<Record<string, string | null>>(this.#sql[name].text, values, answerWithinMs)
    return rows.map((row) => Object.values(row))
  }
}
