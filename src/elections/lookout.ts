import { backoffMs, Gather, Poller } from '../base/index.js'
import { answerWithinMs, type Database, type Presence, type Statement } from '../postgres/index.js'
import { electionKey } from './names.js'

/** Who leads an election. */
export interface Leader {
  /** The id of the instance that leads (`holdfast.id` there). */
  readonly instance: string
  /** The number of its term. */
  readonly term: number
  /** When the term began, by the clock of the database. */
  readonly since: Date
}

/** One election, as a look at the database shows it. */
export interface Sight {
  readonly leader: Leader | null
  /** Whether a preferred candidate is present, other than this instance. */
  readonly preferred: boolean
}

/** Whoever follows an election. */
interface Follower {
  sees(sight: Sight): void
  /** No look will succeed before somebody changes something: a right is missing, for example. */
  fails(error: unknown): void
}

interface LookoutOptions {
  readonly database: Database
  readonly presence: Presence
  readonly namespace: string
  readonly statement: Statement
}

const everyMs = 2_000

/**
 * Looks at the elections that somebody of this process follows or takes part in: one statement for all of them, every
 * two seconds, and at once when one of them notifies of a change.
 */
export class Lookout {
  readonly #options: LookoutOptions
  readonly #looks = new Gather<string, Sight>((names) => this.#lookAll(names))
  readonly #followers = new Map<string, Set<Follower>>()
  readonly #poller = new Poller({
    isNeeded: () => this.#followers.size > 0,
    poll: async () => {
      await Promise.all([...this.#followers].map(([name, followers]) => this.#show(name, followers)))
    },
    pauseMs: (failures) =>
      failures > 0 ? backoffMs(failures, everyMs / 8, everyMs * 2) : everyMs * (0.75 + Math.random() / 2),
    onError: (error) => this.#fail(error),
  })

  constructor(options: LookoutOptions) {
    this.#options = options
  }

  /** One look, now. */
  look(name: string): Promise<Sight> {
    return this.#looks.ask(name)
  }

  /** Tells of every look at an election from now on, the first one at once; returns how to stop. */
  follow(name: string, follower: Follower): () => void {
    const followers = this.#followers.get(name) ?? new Set()
    this.#followers.set(name, followers.add(follower))
    this.#poller.wake()
    this.#poller.start()
    return () => {
      followers.delete(follower)
      if (followers.size > 0 || this.#followers.get(name) !== followers) return
      this.#followers.delete(name)
      if (this.#followers.size === 0) this.#poller.wake()
    }
  }

  /** Something has changed in the election with this key. */
  hear(key: string): void {
    for (const name of this.#followers.keys())
      if (electionKey(this.#options.namespace, name) === key) this.#poller.wake()
  }

  close(): Promise<void> {
    return this.#poller.close()
  }

  async #show(name: string, followers: ReadonlySet<Follower>): Promise<void> {
    const sight = await this.#looks.ask(name)
    for (const follower of [...followers]) follower.sees(sight)
  }

  #fail(error: unknown): void {
    for (const follower of [...this.#followers.values()].flatMap((set) => [...set])) follower.fails(error)
  }

  async #lookAll(names: readonly string[]): Promise<Sight[]> {
    const { database, presence, namespace, statement } = this.#options
    const rows = await database.query<{
      name: string
      instance: string | null
      term: string | null
      since: Date | null
      preferred: boolean
    }>(statement.text, [namespace, [...new Set(names)], presence.life?.number ?? 0], answerWithinMs)
    const sights = new Map(
      rows.map(({ name, instance, term, since, preferred }) => {
        const leader = instance === null ? null : { instance, term: Number(term), since: new Date(since!) }
        return [name, { leader, preferred }]
      }),
    )
    return names.map((name) => sights.get(name)!)
  }
}
