import { Batcher, backoffMs, Poller } from '../base/index.js'
import { type Database, type Presence, responseTimeoutMs, type Statement } from '../postgres/index.js'
import { electionKey } from './names.js'

/** Leader of an election. */
export interface Leader {
  /** Id of the leading instance (its `holdfast.id`). */
  readonly instance: string
  /** Name of the leading instance (its `holdfast.name`). */
  readonly instanceName: string
  /** Number of the leader's term. */
  readonly term: number
  /** Time when the term started, according to the database clock. */
  readonly since: Date
}

/** One election's state, as read from the database. */
export interface ElectionState {
  readonly leader: Leader | null
  /** Whether a preferred candidate other than this instance is present. */
  readonly preferred: boolean
  /** Whether this instance has a row as a preferred candidate. */
  readonly isEnrolled: boolean
}

interface Follower {
  onState(state: ElectionState): void
  /** Receives an error that retries cannot fix, for example a missing database privilege. */
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
 * Polls all of this instance's elections with one statement, every 2 s and after each notification that an election has
 * changed.
 */
export class ElectionPoller {
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

  constructor(readonly options: ElectionPollerOptions) {}

  read(name: string): Promise<ElectionState> {
    return this.#polls.add(name)
  }

  /** Passes the election's state to the follower after each poll, until the returned function is called. */
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

  onElectionChanged(key: string): void {
    for (const name of this.#followers.keys())
      if (electionKey(this.options.namespace, name) === key) this.#poller.wake()
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
    const { database, presence, namespace, statement } = this.options
    const rows = await database.query<{
      name: string
      instance: string | null
      instance_name: string | null
      term: string | null
      since_ms: number | null
      preferred: boolean
      is_enrolled: boolean
    }>(statement.text, [namespace, [...new Set(names)], presence.epoch?.number ?? 0], responseTimeoutMs)
    const states = new Map(
      rows.map(({ name, instance, instance_name, term, since_ms, preferred, is_enrolled }) => {
        const leader =
          instance === null
            ? null
            : { instance, instanceName: instance_name ?? instance, term: Number(term), since: new Date(since_ms!) }
        return [name, { leader, preferred, isEnrolled: is_enrolled }]
      }),
    )
    return names.map((name) => states.get(name)!)
  }
}
