import { backoffMs, ClosedError, Poller } from '../base/index.js'
import {
  answerWithinMs,
  type Database,
  type HealthReason,
  type Presence,
  type Statement,
  troubleOf,
} from '../postgres/index.js'
import type { Assignment } from './assignment.js'

export type RosterStatements = Record<'join' | 'leave' | 'nudge' | 'look_members', Statement>

interface RosterOptions {
  readonly database: Database
  readonly presence: Presence
  readonly statements: RosterStatements
  readonly schema: string
  readonly namespace: string
  /** The key by which a share is spoken of in notifications. */
  keyOf(share: string): string
}

interface Part {
  readonly assignment: Assignment
  /** Under which number of its presence this instance has joined. */
  joinedAs: number | undefined
}

const everyMs = 1_000

/**
 * Who takes part in which share: joins for this instance, and looks who else is present. One small statement for all
 * shares of this instance, about once a second, and at once when somebody joins or leaves.
 */
export class Roster {
  readonly #options: RosterOptions
  readonly #parts = new Map<string, Part>()
  readonly #closing = new AbortController()
  readonly #letGo = new Set<string>()
  readonly #poller = new Poller({
    isNeeded: () => this.#parts.size > 0,
    poll: () => this.#look(),
    // Not in step with the other instances, and never much later than a second.
    pauseMs: (failures) =>
      failures > 0 ? backoffMs(failures, everyMs / 4, everyMs * 4) : everyMs * (0.7 + Math.random() * 0.4),
    onError: (error) => {
      for (const assignment of this.assignments) assignment.report(error)
    },
  })
  #joining: Promise<unknown> = Promise.resolve()
  #watched: number | undefined

  constructor(options: RosterOptions) {
    this.#options = options
  }

  has(share: string): boolean {
    return this.#parts.has(share)
  }

  add(assignment: Assignment): void {
    this.#parts.set(assignment.name, { assignment, joinedAs: undefined })
    this.nudge()
    this.#poller.start()
  }

  /** This instance takes part no more: the others are told at once, and may still have to wait for what it owns. */
  async remove(assignment: Assignment): Promise<void> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const part = this.#parts.get(assignment.name)
    if (part?.assignment !== assignment) return
    this.#parts.delete(assignment.name)
    this.nudge()
    await this.#joining
    if (part.joinedAs === undefined) return
    const values = [namespace, presence.instanceId, assignment.name, schema, keyOf(assignment.name)]
    // If it fails, the row counts for as long as this instance is present.
    await database.query(statements.leave.text, values, answerWithinMs).catch(() => {})
  }

  get assignments(): Assignment[] {
    return [...this.#parts.values()].map(({ assignment }) => assignment)
  }

  /** What keeps this instance from taking part, or the work on its resources from going on. */
  troubles(): HealthReason[] {
    const { failure } = this.#poller
    if (failure) return [troubleOf('SHARE_FAILED', 'This instance cannot take part in its shares', failure.error)]
    return this.assignments.flatMap(({ trouble }) => trouble ?? [])
  }

  /** Look again, now. */
  nudge(): void {
    this.#poller.wake()
  }

  /** Somebody has joined the share with this key, or left it. */
  hearMembers(key: string): void {
    for (const share of this.#parts.keys()) if (this.#options.keyOf(share) === key) this.nudge()
  }

  /** Somebody has let go of resources of the share with this key. */
  hearLetGo(key: string): void {
    for (const [share, { assignment }] of this.#parts) if (this.#options.keyOf(share) === key) assignment.nudge()
  }

  /** Tells the others that resources of a share were let go; all that are let go at about the same time at once. */
  letGo(share: string): void {
    if (this.#letGo.size === 0) setImmediate(() => this.#tellLetGo())
    this.#letGo.add(share)
  }

  async close(): Promise<void> {
    this.#closing.abort(new ClosedError('This instance'))
    await this.#poller.close()
  }

  #tellLetGo(): void {
    const { database, statements, schema, keyOf } = this.#options
    const keys = [...this.#letGo].map(keyOf)
    this.#letGo.clear()
    void database.query(statements.nudge.text, [schema, keys], answerWithinMs).catch(() => {})
  }

  async #look(): Promise<void> {
    const { database, presence, statements, namespace } = this.#options
    const life = await presence.whenLiving(this.#closing.signal)
    if (this.#watched !== life.number) {
      this.#watched = life.number
      // What comes after a loss is a new presence, under which it must join again, before others take its place.
      life.onLoss(() => this.nudge())
    }
    await this.#join(life.number)
    const shares = [...this.#parts.keys()]
    if (shares.length === 0) return
    const rows = await database.query<{ share: string; instances: string[] }>(
      statements.look_members.text,
      [namespace, shares],
      answerWithinMs,
    )
    const members = new Map(rows.map(({ share, instances }) => [share, instances]))
    for (const [share, part] of this.#parts) {
      const present = members.get(share) ?? []
      if (present.includes(presence.instanceId)) part.assignment.divide(present)
      // A crash of the server empties the table.
      else if (shares.includes(share)) part.joinedAs = undefined
    }
  }

  async #join(number: number): Promise<void> {
    const { database, presence, statements, schema, namespace, keyOf } = this.#options
    const joining = [...this.#parts].filter(([, { joinedAs }]) => joinedAs !== number)
    if (joining.length === 0) return
    const shares = joining.map(([share]) => share)
    const values = [namespace, presence.instanceId, number, shares, schema, shares.map(keyOf)]
    this.#joining = database.query(statements.join.text, values, answerWithinMs).then(() => {
      for (const [, part] of joining) part.joinedAs = number
    })
    // Whoever leaves meanwhile waits for it, whatever becomes of it.
    this.#joining = this.#joining.catch((error) => ({ error }))
    const outcome = (await this.#joining) as { error: unknown } | undefined
    if (outcome) throw outcome.error
  }
}
