import { type Anchor, DeadlockError, type Statement } from '../postgres/index.js'
import type { Arbiter, Request } from './arbiter.js'
import type { Hold } from './hold.js'

/**
 * Writes down what lasts: a hold that outlives a few seconds, a wait that outlives one. Short ones, which are nearly
 * all, cost nothing, and neither does an instance that holds nothing and waits for nothing.
 *
 * The notes tell people since when. And they find deadlocks that PostgreSQL cannot see, because a lock is held on one
 * session and waited for on another: a wait is noted with what the same flow of control holds, so that who waits for
 * whom can be followed through the fleet. A circle that is seen twice, a second apart, is a deadlock; its youngest
 * side fails with a `DeadlockError`.
 */
export type NoteStatements = Record<
  'note_holds' | 'forget_holds' | 'note_waits' | 'forget_waits' | 'find_cycle',
  Statement
>

const everyMs = 1_000
const longWaitMs = 1_000
const longHoldMs = 3_000

export class Notes {
  readonly #notedHolds = new Set<Hold>()
  readonly #notedWaits = new Map<number, Request>()
  /** The circle that each waiting request was seen in last. */
  readonly #suspicions = new Map<number, string>()
  readonly #anchor: Anchor
  readonly #arbiter: Arbiter
  readonly #statements: NoteStatements
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(anchor: Anchor, arbiter: Arbiter, statements: NoteStatements) {
    this.#anchor = anchor
    this.#arbiter = arbiter
    this.#statements = statements
  }

  /** Called whenever something is asked for; runs while there is something to write down or to strike out. */
  wake(): void {
    if (this.#timer || this.#closed) return
    this.#timer = setTimeout(async () => {
      // The database being away costs no more than a note that comes late.
      await this.#write().catch(() => {})
      this.#timer = undefined
      if (this.#isBusy()) this.wake()
    }, everyMs)
    this.#timer.unref()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    if (this.#isBusy()) await this.#write().catch(() => {})
  }

  #isBusy(): boolean {
    const { value } = this.#arbiter.holds()[Symbol.iterator]().next()
    const waits = this.#arbiter.waiting()[Symbol.iterator]().next().value
    return value !== undefined || waits !== undefined || this.#notedHolds.size > 0 || this.#notedWaits.size > 0
  }

  async #write(): Promise<void> {
    if (!this.#anchor.session) return
    const now = performance.now()
    const holds = [...this.#arbiter.holds()].filter((hold) => now - hold.grantedAt > longHoldMs)
    const waits = [...this.#arbiter.waiting()].filter((request) => now - request.askedAt > longWaitMs)
    await this.#noteHolds(new Set(holds), now)
    await this.#noteWaits(new Map(waits.map((request) => [request.id, request])), now)
    for (const request of waits) await this.#look(request)
  }

  async #noteHolds(present: Set<Hold>, now: number): Promise<void> {
    const gone = [...this.#notedHolds].filter((hold) => !present.has(hold))
    const fresh = [...present].filter((hold) => !this.#notedHolds.has(hold))
    // Struck out first: a key that is held anew on the same session has one row.
    if (gone.length > 0) {
      await this.#run('forget_holds', [column(gone, sessionOf), column(gone, keyOf)])
      for (const hold of gone) this.#notedHolds.delete(hold)
    }
    if (fresh.length > 0) {
      const fences = column(fresh, ({ fence }) => fence)
      const ages = column(fresh, ({ grantedAt }) => now - grantedAt)
      const modes = column(fresh, ({ mode }) => mode)
      await this.#run('note_holds', [column(fresh, sessionOf), column(fresh, keyOf), modes, fences, ages])
      for (const hold of fresh) this.#notedHolds.add(hold)
    }
  }

  async #noteWaits(present: Map<number, Request>, now: number): Promise<void> {
    const gone = [...this.#notedWaits.keys()].filter((id) => !present.has(id))
    const fresh = [...present.values()].filter(({ id }) => !this.#notedWaits.has(id))
    if (gone.length > 0) {
      await this.#run('forget_waits', [this.#anchor.instanceId, gone])
      for (const id of gone) {
        this.#notedWaits.delete(id)
        this.#suspicions.delete(id)
      }
    }
    if (fresh.length > 0) {
      await this.#run('note_waits', [
        this.#anchor.instanceId,
        column(fresh, ({ id }) => id),
        column(fresh, keyOf),
        column(fresh, ({ ask }) => ask.mode),
        column(fresh, ({ askedAt }) => now - askedAt),
        fresh.map(({ ask }) => `{${(ask.holding ?? []).join(',')}}`),
      ])
      for (const request of fresh) this.#notedWaits.set(request.id, request)
    }
  }

  /** Looks for a circle through one wait. Only who holds something while it waits can close one. */
  async #look(request: Request): Promise<void> {
    if (!request.ask.holding?.length) return
    const sides = await this.#run('find_cycle', [this.#anchor.instanceId, request.id])
    const [youngest] = sides
    const isVictim = youngest?.[0] === this.#anchor.instanceId && Number(youngest[1]) === request.id
    const circle = sides.map(([instance, id]) => `${instance} ${id}`).join(', ')
    if (!isVictim) return
    if (this.#suspicions.get(request.id) !== circle) {
      this.#suspicions.set(request.id, circle)
      return
    }
    const cycle = sides.map(
      ([instance, , label, host, pid]) => `instance ${instance} (${host}, process ${pid}) waits for "${label}"`,
    )
    request.fail(new DeadlockError(cycle))
  }

  #run(name: keyof NoteStatements, values: unknown[]): Promise<string[][]> {
    const session = this.#anchor.session
    return session ? session.run(this.#statements[name], values) : Promise.resolve([])
  }
}

const sessionOf = (hold: Hold) => hold.turns.session.number
const keyOf = ({ key }: Hold | Request) => key.key

function column<T>(items: readonly T[], value: (item: T) => unknown): unknown[] {
  return items.map(value)
}
