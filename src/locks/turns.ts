import type { HoldfastError, Key } from '../base/index.js'
import { arrayOf, LockTableFullError, type Names, type Session, type Statement } from '../postgres/index.js'
import type { Budget } from './budget.js'

export type Mode = 'exclusive' | 'shared'

interface Try {
  readonly key: Key
  readonly mode: Mode
  resolve(fence: number | null): void
  reject(error: unknown): void
}

interface Release {
  readonly key: Key
  readonly mode: Mode
  resolve(): void
  reject(error: unknown): void
}

export type TurnStatements = Record<'turn' | 'try_one' | 'release_one', Statement>

/** So many statements may be under way: the server works on one while the answers of the other become the next. */
const width = 2
/** Fewer than this go out together: to halve them would cost more than it brings. */
const worthHalving = 16

/**
 * One session's tries and releases, sent in batches: all that was asked for in one turn of the event loop goes out as
 * one statement, or in two halves when it is much. While statements are under way, what is asked for gathers for the
 * next. This is where 64 acquires at once cost hardly more than one.
 *
 * No key is in two statements at once, for one that fails gives back all of its keys.
 *
 * The session must not hold a key that is tried: PostgreSQL would say yes and count. The arbiter sees to it.
 */
export class Turns {
  #tries: Try[] = []
  #releases: Release[] = []
  #scheduled = false
  #underWay = 0
  readonly #keysUnderWay = new Set<string>()

  constructor(
    readonly session: Session,
    readonly statements: TurnStatements,
    readonly names: Names,
    readonly budget: Budget,
  ) {}

  /** The fence when the key was free and is now held, null when it was busy. */
  try(key: Key, mode: Mode): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#tries.push({ key, mode, resolve, reject })
      this.#schedule()
    })
  }

  release(key: Key, mode: Mode): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#releases.push({ key, mode, resolve, reject })
      this.#schedule()
    })
  }

  /** Goes out at once, on a session that serves one name only; what is run after it comes after it. */
  async releaseNow(key: Key, mode: Mode): Promise<void> {
    try {
      await this.session.run(this.statements.release_one, [key.key, mode === 'shared'])
      this.budget.returned(1)
    } catch {
      // Gone with its session; or else, once more.
      if (this.session.trusted) await this.release(key, mode)
    }
  }

  #schedule(): void {
    const isNothing = this.#releases.length + this.#tries.length === 0
    if (isNothing || this.#scheduled || this.#underWay === width) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#take()
    })
  }

  async #take(): Promise<void> {
    // With nothing under way all would wait for one answer, and the server then for all of us: two halves take turns.
    const asked = this.#releases.length + this.#tries.length
    const room = this.#underWay === 0 && asked >= worthHalving ? Math.ceil(asked / 2) : asked
    const [releases, laterReleases] = this.#part(this.#releases, room)
    const [tries, laterTries] = this.#part(this.#tries, room - releases.length)
    this.#releases = laterReleases
    this.#tries = laterTries
    if (releases.length + tries.length === 0) return
    const keys = [...releases, ...tries].map(({ key }) => key.key)
    for (const key of keys) this.#keysUnderWay.add(key)
    this.#underWay++
    this.#schedule()
    try {
      await this.#run(tries, releases)
    } catch (error) {
      await this.#cleanUp(tries, releases, error)
    }
    for (const key of keys) this.#keysUnderWay.delete(key)
    this.#underWay--
    this.#schedule()
  }

  /** What may go now, and what comes later. */
  #part<T extends Try | Release>(asked: T[], room: number): [now: T[], later: T[]] {
    const now: T[] = []
    const later: T[] = []
    for (const one of asked) {
      if (now.length < room && !this.#keysUnderWay.has(one.key.key)) now.push(one)
      else later.push(one)
    }
    return [now, later]
  }

  async #run(tries: Try[], releases: Release[]): Promise<void> {
    const admitted = await this.#admit(tries)
    if (admitted.length + releases.length === 0) return
    const collisions = this.#register(admitted)
    // Awaited below; until then a failure must not count as unhandled.
    collisions.catch(() => {})
    const fences = await this.#send(releases, admitted)
    for (const release of releases) release.resolve()
    this.budget.returned(releases.length)
    if (admitted.length === 0) return
    const collided = await collisions
    let busy = 0
    for (const [place, asked] of admitted.entries()) {
      const fence = fences[place] ? Number(fences[place]) : null
      if (fence === null) busy++
      const collision = collided?.get(asked.key.key)
      if (collision && fence !== null) this.release(asked.key, asked.mode).catch(() => {})
      if (collision) asked.reject(collision)
      else asked.resolve(fence)
    }
    this.budget.returned(busy)
  }

  /** Answers with the fence of each try; empty where the name was busy. */
  async #send(releases: Release[], tries: Try[]): Promise<(string | null)[]> {
    const { turn, try_one, release_one } = this.statements
    if (releases.length + tries.length === 1) {
      const { key, mode } = (tries[0] ?? releases[0])!
      const values = [key.key, mode === 'shared']
      const [row] = tries[0]
        ? await this.session.runGrant(try_one, values)
        : await this.session.run(release_one, values)
      return tries[0] ? row! : []
    }
    const [row] = await this.session.runGrant(turn, [
      arrayOf(releases.map(({ key }) => key.key)),
      arrayOf(releases.map(({ mode }) => mode === 'shared')),
      arrayOf(tries.map(({ key }) => key.key)),
      arrayOf(tries.map(({ mode }) => mode === 'shared')),
    ])
    return row![1]!.split(',')
  }

  /** Those tries for which the server has room; the others are refused here. */
  async #admit(tries: Try[]): Promise<Try[]> {
    try {
      if (tries.length > 0) await this.budget.allow(this.session, tries.length)
      return tries
    } catch (error) {
      for (const refused of tries) refused.reject(error)
      return []
    }
  }

  /** Registers the names that this process has not used lately; goes out in the same round trip as the tries. */
  async #register(tries: Try[]): Promise<Map<string, HoldfastError> | undefined> {
    const fresh = tries.filter(({ key }) => !this.names.isKnown(key)).map(({ key }) => key)
    if (fresh.length === 0) return undefined
    const rows = await this.session.run(this.names.register, this.names.valuesFor(fresh))
    return this.names.learn(fresh, rows)
  }

  /**
   * A statement that failed may have taken some of the locks already: locks of a session survive its rollbacks. So
   * everything that was asked for is released; what is not held only says so.
   */
  async #cleanUp(tries: Try[], releases: Release[], error: unknown): Promise<void> {
    const reason =
      error instanceof LockTableFullError ? new LockTableFullError(error.message, this.#facts(error)) : error
    if (this.session.trusted) {
      const all = [...tries, ...releases]
      const values = [
        arrayOf(all.map(({ key }) => key.key)),
        arrayOf(all.map(({ mode }) => mode === 'shared')),
        '{}',
        '{}',
      ]
      // What cannot be given back one by one is given back all at once, by ending the session.
      await this.session.runGrant(this.statements.turn, values).catch((failure) => this.session.lose(failure))
    }
    for (const asked of tries) asked.reject(reason)
    // Released now, or gone with its session.
    for (const asked of releases) asked.resolve()
  }

  #facts(cause: unknown) {
    return { budget: this.session.lockBudget, inUse: undefined, cause }
  }
}
