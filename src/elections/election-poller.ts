import { Batcher, backoffMs, Poller } from '../base/index.js'
import { type Database, type Presence, responseTimeoutMs, type Statement } from '../postgres/index.js'
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
export interface ElectionState {
  readonly leader: Leader | null
  /** Whether a preferred candidate is present, other than this instance. */
  readonly preferred: boolean
}

/** Whoever follows an election. */
interface Follower {
  onState(state: ElectionState): void
  /** No look will succeed before somebody changes something: a right is missing, for example. */
  onError(error: unknown): void
}

interface ElectionPollerOptions {
  readonly database: Database
  readonly presence: Presence
  readonly namespace: string
  readonly statement: Statement
}

const pollEveryMs = 2_000

/**
 * Looks at the elections that somebody of this process follows or takes part in: one statement for all of them, every
 * two seconds, and at once when one of them notifies of a change.
 */
export class ElectionPoller {
  readonly #options: ElectionPollerOptions
  readonly #polls = new Batcher<string, ElectionState>((names) => this.#readAll(names))
  readonly #followers = new Map<string, Set<Follower>>()
  readonly #poller = new Poller({
    isNeeded: () => this.#followers.size > 0,
    poll: async () => {
      await Promise.all([...this.#followers].map(([name, followers]) => this.#pollOne(name, followers)))
    },
    pauseMs: (failures) =>
      failures > 0 ? backoffMs(failures, pollEveryMs / 8, pollEveryMs * 2) : pollEveryMs * (0.75 + Math.random() / 2),
    onError: (error) => this.#reportError(error),
  })

  constructor(options: ElectionPollerOptions) {
    this.#options = options
  }

  /** One look, now. */
  read(name: string): Promise<ElectionState> {
    return this.#polls.add(name)
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
  onElectionChanged(key: string): void {
    for (const name of this.#followers.keys())
      if (electionKey(this.#options.namespace, name) === key) this.#poller.wake()
  }

  close(): Promise<void> {
    return this.#poller.close()
  }

  async #pollOne(name: string, followers: ReadonlySet<Follower>): Promise<void> {
    const state = await this.#polls.add(name)
    for (const follower of [...followers]) follower.onState(state)
  }

  #reportError(error: unknown): void {
    for (const follower of [...this.#followers.values()].flatMap((set) => [...set])) follower.onError(error)
  }

  async #readAll(names: readonly string[]): Promise<ElectionState[]> {
    const { database, presence, namespace, statement } = this.#options
    const rows = await database.query<{
      name: string
      instance: string | null
      term: string | null
      since: Date | null
      preferred: boolean
    }>(statement.text, [namespace, [...new Set(names)], presence.epoch?.number ?? 0], responseTimeoutMs)
    const states = new Map(
      rows.map(({ name, instance, term, since, preferred }) => {
        const leader = instance === null ? null : { instance, term: Number(term), since: new Date(since!) }
        return [name, { leader, preferred }]
      }),
    )
    return names.map((name) => states.get(name)!)
  }
}
