import { backoffMs, ClosedError, Poller } from '../base/index.js'
import {
  type Database,
  type HealthReason,
  healthReasonOf,
  type Presence,
  responseTimeoutMs,
  type Statement,
} from '../postgres/index.js'
import type { Assignment } from './assignment.js'

export type RosterStatements = Record<'join' | 'leave' | 'notify_released' | 'read_members', Statement>

interface RosterOptions {
  readonly database: Database
  readonly presence: Presence
  readonly statements: RosterStatements
  readonly schema: string
  readonly namespace: string
  /** Returns the key that identifies a share in notifications. */
  keyOf(share: string): string
}

interface Membership {
  readonly assignment: Assignment
  /** Session number of the epoch in which this instance joined the share. */
  joinedAs: number | undefined
}

const pollEveryMs = 1_000

/**
 * Joins shares on behalf of this instance and reads their present members. One statement covers all shares. The
 * statement runs about once a second, and immediately when a member joins or leaves.
 */
export class Roster {
  readonly #options: RosterOptions
  readonly #memberships = new Map<string, Membership>()
  readonly #closing = new AbortController()
  readonly #released = new Set<string>()
  readonly #poller = new Poller({
    isNeeded: () => this.#memberships.size > 0,
    poll: async () => {
      try {
        await this.#poll()
      } catch (error) {
        if (!this.#closing.signal.aborted) for (const assignment of this.assignments) assignment.onJoinFailed(error)
        throw error
      }
    },
    // Random jitter prevents the instances from polling at the same time.
    pauseMs: (failures) =>
      failures > 0 ? backoffMs(failures, pollEveryMs / 4, pollEveryMs * 4) : pollEveryMs * (0.7 + Math.random() * 0.4),
  })
  #joining: Promise<unknown> = Promise.resolve()
  #watchedEpoch: number | undefined

  constructor(options: RosterOptions) {
    this.#options = options
  }

  has(share: string): boolean {
    return this.#memberships.has(share)
  }

  add(assignment: Assignment): void {
    this.#memberships.set(assignment.name, { assignment, joinedAs: undefined })
    this.wake()
    this.#poller.start()
  }

  /**
   * Leaves a share and notifies the other members immediately. The other members may be waiting for this instance's
   * resources.
   */
  async remove(assignment: Assignment): Promise<void> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const membership = this.#memberships.get(assignment.name)
    if (membership?.assignment !== assignment) return
    this.#memberships.delete(assignment.name)
    this.wake()
    await this.#joining
    if (membership.joinedAs === undefined) return
    const values = [namespace, presence.instanceId, assignment.name, schema, keyOf(assignment.name)]
    // If the statement fails, the row remains valid while this instance is present.
    await database.query(statements.leave.text, values, responseTimeoutMs).catch(() => {})
  }

  get assignments(): Assignment[] {
    return [...this.#memberships.values()].map(({ assignment }) => assignment)
  }

  troubles(): HealthReason[] {
    const { failure } = this.#poller
    if (failure) return [healthReasonOf('SHARE_FAILED', 'This instance cannot take part in its shares', failure.error)]
    return this.assignments.flatMap(({ trouble }) => trouble ?? [])
  }

  wake(): void {
    this.#poller.wake()
  }

  /** Handles the notification that an instance has joined or left the share with this key. */
  onMembersChanged(key: string): void {
    for (const share of this.#memberships.keys()) if (this.#options.keyOf(share) === key) this.wake()
  }

  /** Handles the notification that a member has released resources in the share with this key. */
  onResourceReleased(key: string): void {
    for (const [share, { assignment }] of this.#memberships) if (this.#options.keyOf(share) === key) assignment.wake()
  }

  /**
   * Notifies the other members of released resources. Resources that are released in the same turn of the event loop
   * share a notification.
   */
  announceRelease(share: string): void {
    if (this.#released.size === 0) setImmediate(() => this.#notifyReleased())
    this.#released.add(share)
  }

  async close(): Promise<void> {
    this.#closing.abort(new ClosedError('This instance'))
    await this.#poller.close()
  }

  #notifyReleased(): void {
    const { database, statements, schema, keyOf } = this.#options
    const keys = [...this.#released].map(keyOf)
    this.#released.clear()
    void database.query(statements.notify_released.text, [schema, keys], responseTimeoutMs).catch(() => {})
  }

  async #poll(): Promise<void> {
    const { database, presence, statements, namespace } = this.#options
    const epoch = await presence.whenPresent(this.#closing.signal)
    if (this.#watchedEpoch !== epoch.number) {
      this.#watchedEpoch = epoch.number
      // After a loss, this instance must join again in its new epoch before other instances take over its resources.
      epoch.onLoss(() => this.wake())
    }
    await this.#join(epoch.number)
    const shares = [...this.#memberships.keys()]
    if (shares.length === 0) return
    const rows = await database.query<{ share: string; instances: string[] }>(
      statements.read_members.text,
      [namespace, shares],
      responseTimeoutMs,
    )
    const members = new Map(rows.map(({ share, instances }) => [share, instances]))
    for (const [share, membership] of this.#memberships) {
      const present = members.get(share) ?? []
      if (present.includes(presence.instanceId)) membership.assignment.divide(present)
      // This instance's row can be missing after a server crash, which empties the table. The next poll joins again.
      else if (shares.includes(share)) membership.joinedAs = undefined
    }
  }

  async #join(number: number): Promise<void> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const joining = [...this.#memberships].filter(([, { joinedAs }]) => joinedAs !== number)
    if (joining.length === 0) return
    const shares = joining.map(([share]) => share)
    const values = [namespace, presence.instanceId, number, shares, schema, shares.map(keyOf)]
    this.#joining = database.query(statements.join.text, values, responseTimeoutMs).then(() => {
      for (const [, part] of joining) part.joinedAs = number
    })
    // If `remove` is called now, it waits until the join has ended, even if the join fails.
    this.#joining = this.#joining.catch((error) => ({ error }))
    const outcome = (await this.#joining) as { error: unknown } | undefined
    if (outcome) throw outcome.error
  }
}
