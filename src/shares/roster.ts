import { backoffMs, ClosedError, Poller } from '../base/index.js'
import {
  type Database,
  type HealthReason,
  healthReasonOf,
  lateEffectMs,
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
  /** Whether a join received no response, and can therefore take effect later. */
  isUnanswered: boolean
}

const pollEveryMs = 1_000
/**
 * Joins shares on behalf of this instance and reads their present members. One statement covers all shares. The
 * statement runs about once a second, and immediately when a member joins or leaves.
 */
export class Roster {
  readonly #options: RosterOptions
  readonly #memberships = new Map<string, Membership>()
  /** Shares that this instance has left, although its row may still exist. Maps each share to the time of the last check. */
  readonly #left = new Map<string, number>()
  readonly #closing = new AbortController()
  readonly #released = new Set<string>()
  readonly #poller = new Poller({
    isNeeded: () => this.#memberships.size + this.#left.size > 0,
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
    this.#memberships.set(assignment.name, { assignment, joinedAs: undefined, isUnanswered: false })
    this.wake()
    this.#poller.start()
  }

  /**
   * Leaves a share and notifies the other members immediately. The other members may be waiting for this instance's
   * resources. While this instance's row exists, the resources of its part have no owner. Therefore, the polls check that
   * the row was deleted.
   */
  async remove(assignment: Assignment): Promise<void> {
    const { name } = assignment
    const membership = this.#memberships.get(name)
    if (membership?.assignment !== assignment) return
    this.#memberships.delete(name)
    this.wake()
    await this.#joining
    if (membership.joinedAs === undefined && !membership.isUnanswered) return
    const hasLeft = await this.#leave(name)
    if (hasLeft && !membership.isUnanswered) return
    this.#left.set(name, performance.now() + (membership.isUnanswered ? lateEffectMs : 0))
    this.#poller.start()
  }

  get assignments(): Assignment[] {
    return [...this.#memberships.values()].map(({ assignment }) => assignment)
  }

  troubles(): HealthReason[] {
    const { failure } = this.#poller
    if (failure && this.#memberships.size > 0)
      return [healthReasonOf('SHARE_FAILED', 'This instance cannot take part in its shares', failure.error)]
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
    for (const share of this.#memberships.keys()) this.#left.delete(share)
    const shares = [...this.#memberships.keys(), ...this.#left.keys()]
    if (shares.length === 0) return
    const readAt = performance.now()
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
    for (const [share, checkUntil] of this.#left) {
      if (!shares.includes(share)) continue
      if (members.get(share)?.includes(presence.instanceId)) await this.#leave(share)
      else if (readAt > checkUntil) this.#left.delete(share)
    }
  }

  /** Deletes this instance's row. Returns false if the deletion fails. */
  async #leave(share: string): Promise<boolean> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const values = [namespace, presence.instanceId, share, schema, keyOf(share)]
    return database.query(statements.leave.text, values, responseTimeoutMs).then(
      () => true,
      () => false,
    )
  }

  async #join(number: number): Promise<void> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const joining = [...this.#memberships].filter(([, { joinedAs }]) => joinedAs !== number)
    if (joining.length === 0) return
    const shares = joining.map(([share]) => share)
    const values = [namespace, presence.instanceId, number, shares, schema, shares.map(keyOf)]
    for (const [, membership] of joining) membership.isUnanswered = true
    this.#joining = database.query(statements.join.text, values, responseTimeoutMs).then(() => {
      // The insert has waited for an earlier insert of the same row, so no earlier join can still take effect.
      for (const [, membership] of joining) Object.assign(membership, { joinedAs: number, isUnanswered: false })
    })
    // If `remove` is called now, it waits until the join has ended, even if the join fails.
    this.#joining = this.#joining.catch((error) => ({ error }))
    const outcome = (await this.#joining) as { error: unknown } | undefined
    if (outcome) throw outcome.error
  }
}
