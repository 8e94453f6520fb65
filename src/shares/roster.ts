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
  /** The key by which a share is spoken of in notifications. */
  keyOf(share: string): string
}

interface Membership {
  readonly assignment: Assignment
  /** Under which number of its presence this instance has joined. */
  joinedAs: number | undefined
}

const pollEveryMs = 1_000

/**
 * Who takes part in which share: joins for this instance, and looks who else is present. One small statement for all
 * shares of this instance, about once a second, and at once when somebody joins or leaves.
 */
export class Roster {
  readonly #options: RosterOptions
  readonly #memberships = new Map<string, Membership>()
  readonly #closing = new AbortController()
  readonly #released = new Set<string>()
  readonly #poller = new Poller({
    isNeeded: () => this.#memberships.size > 0,
    poll: () => this.#poll(),
    // Not in step with the other instances, and never much later than a second.
    pauseMs: (failures) =>
      failures > 0 ? backoffMs(failures, pollEveryMs / 4, pollEveryMs * 4) : pollEveryMs * (0.7 + Math.random() * 0.4),
    onError: (error) => {
      for (const assignment of this.assignments) assignment.report(error)
    },
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

  /** This instance takes part no more: the others are told at once, and may still have to wait for what it owns. */
  async remove(assignment: Assignment): Promise<void> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const membership = this.#memberships.get(assignment.name)
    if (membership?.assignment !== assignment) return
    this.#memberships.delete(assignment.name)
    this.wake()
    await this.#joining
    if (membership.joinedAs === undefined) return
    const values = [namespace, presence.instanceId, assignment.name, schema, keyOf(assignment.name)]
    // If it fails, the row counts for as long as this instance is present.
    await database.query(statements.leave.text, values, responseTimeoutMs).catch(() => {})
  }

  get assignments(): Assignment[] {
    return [...this.#memberships.values()].map(({ assignment }) => assignment)
  }

  /** What keeps this instance from taking part, or the work on its resources from going on. */
  troubles(): HealthReason[] {
    const { failure } = this.#poller
    if (failure) return [healthReasonOf('SHARE_FAILED', 'This instance cannot take part in its shares', failure.error)]
    return this.assignments.flatMap(({ trouble }) => trouble ?? [])
  }

  /** Look again, now. */
  wake(): void {
    this.#poller.wake()
  }

  /** Somebody has joined the share with this key, or left it. */
  onMembersChanged(key: string): void {
    for (const share of this.#memberships.keys()) if (this.#options.keyOf(share) === key) this.wake()
  }

  /** Somebody has let go of resources of the share with this key. */
  onResourceReleased(key: string): void {
    for (const [share, { assignment }] of this.#memberships) if (this.#options.keyOf(share) === key) assignment.wake()
  }

  /** Tells the others that resources of a share were let go; all that are let go at about the same time at once. */
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
      // What comes after a loss is a new presence, under which it must join again, before others take its place.
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
      // A crash of the server empties the table.
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
    // Whoever leaves meanwhile waits for it, whatever becomes of it.
    this.#joining = this.#joining.catch((error) => ({ error }))
    const outcome = (await this.#joining) as { error: unknown } | undefined
    if (outcome) throw outcome.error
  }
}
