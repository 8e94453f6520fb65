import {
  Calls,
  type Duration,
  type Events,
  hashedKey,
  InstanceDrainingError,
  resultWithin,
  UsageError,
  whenAborted,
} from '../base/index.js'
import { type Database, type HealthReason, loadStatements, type NameLocker, type Presence } from '../postgres/index.js'
import { Assignment, type Resources } from './assignment.js'
import { EachCall, type EachResult } from './each.js'
import { checkResources, checkShare, checkWork, readEachOptions } from './input.js'
import { type OwnedResource, resourceName } from './owned-resource.js'
import { Roster, type RosterStatements } from './roster.js'
import { ShareStore, type ShareStoreStatements } from './store.js'

export interface EachOptions {
  /**
   * Names the round: the tick of a schedule, for example, as a string or a Date. Within a week, a resource is worked on
   * once in a round of that name, however late somebody calls.
   */
  round?: string | Date | undefined
  /**
   * For rounds without a name: a resource counts as done when the work on it began less than this before the call, or
   * ended since the call began. So it says how far apart the instances may call. Default 10 s.
   */
  window?: Duration | undefined
  /** How many resources this instance works on at once. Default 1. */
  concurrency?: number | undefined
  /**
   * True (the default): the call goes on until every resource was done by somebody or has failed here, and takes over
   * what a dead instance leaves. False: what others are at work on is left to them.
   */
  waitForOthers?: boolean | undefined
  /** Gives up when it aborts: begins nothing more, and tells those that are at work. */
  signal?: AbortSignal | undefined
}

export interface SharesOptions {
  readonly database: Database
  readonly presence: Presence
  readonly locker: NameLocker
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly events: Events
}

/**
 * Work on many resources, divided among the instances: in rounds (`each`), or for as long as they live (`assign`).
 *
 * @example
 * await holdfast.shares.each('cities', cities, async (city, { signal, fence }) => {
 *   await assignSequences(city, { signal, fence })
 * })
 */
export class Shares {
  readonly #options: SharesOptions
  readonly #store: ShareStore
  readonly #roster: Roster
  readonly #rounds = new Set<Promise<unknown>>()
  readonly #draining = new AbortController()
  /** Tells the rounds of this instance to end. */
  readonly #stopping = new AbortController()
  readonly #calls = new Calls()

  /** @internal */
  constructor(options: SharesOptions) {
    this.#options = options
    const { database, presence, namespace, schema } = options
    const statements = loadStatements<keyof ShareStoreStatements | keyof RosterStatements>(
      new URL('./shares.sql', import.meta.url),
      schema,
    )
    const keyOf = (share: string) => hashedKey(namespace, resourceName(share, '')).key
    this.#store = new ShareStore({ database, presence, statements, namespace })
    this.#roster = new Roster({ database, presence, statements, schema, namespace, keyOf })
  }

  /**
   * Works on every resource that nobody else works on or has done in this round, one after the other, from a random place
   * on. Instances that call it at about the same time divide the resources by trying; more of them do it faster. A
   * resource is recorded as done when `work` has succeeded and the resource was still held.
   *
   * Throws `ResourcesFailedError` when `work` threw for some, after the others were worked on.
   *
   * @example
   * const { done, skipped } = await holdfast.shares.each('cities', cities, assignSequences, { round: tick })
   */
  async each(
    name: string,
    resources: readonly string[],
    work: (resource: string, owned: OwnedResource) => Promise<unknown> | unknown,
    options?: EachOptions,
  ): Promise<EachResult> {
    checkShare(name)
    const list = checkResources(name, resources)
    checkWork('shares.each', work)
    const { concurrency = 1, waitForOthers = true, signal, ...read } = readEachOptions(options)
    const giveUp = new AbortController()
    const forgets = [this.#calls.closing, this.#stopping.signal, signal].map((given) =>
      whenAborted(given, (reason) => giveUp.abort(reason)),
    )
    const windowMs = read.round === undefined ? (read.window ?? 10_000) : null
    const settings = {
      round: { share: name, name: read.round ?? '', windowMs },
      concurrency,
      waitForOthers,
      signal: giveUp.signal,
    }
    const call = new EachCall({ ...this.#options, store: this.#store }, list, work, settings)
    const running = this.#calls.run(
      'shares.each',
      () => name,
      () => call.run(),
    )
    this.#rounds.add(running)
    try {
      return await running
    } finally {
      this.#rounds.delete(running)
      for (const forget of forgets) forget()
      this.#store.sweepSometimes()
    }
  }

  /**
   * Takes part in a division: runs `work` for each resource that falls to this instance, for as long as it does. The
   * resources are spread evenly over the instances that assign the same share, and few of them move when one comes or goes.
   *
   * - When a resource is to move, its `signal` aborts; when `work` has ended, its next owner begins. Never two at once.
   * - When `work` returns while the resource is owned, it is run again after a second; when it throws, after a pause that
   *   grows up to a minute, and `share.failed` is told.
   *
   * @example
   * await using assignment = holdfast.shares.assign('feeds', () => listFeeds(), async (feed, { signal }) => {
   *   for await (const entry of follow(feed, { signal })) await store(entry)
   * })
   */
  assign(
    name: string,
    resources: Resources,
    work: (resource: string, owned: OwnedResource) => Promise<unknown> | unknown,
  ): Assignment {
    checkShare(name)
    checkWork('shares.assign', work)
    this.#calls.throwIfClosed()
    this.#draining.signal.throwIfAborted()
    if (this.#roster.has(name)) {
      throw new UsageError(
        `This instance takes part in "${name}" already`,
        'Give the assignment that shares.assign returned other resources by its update(), or close it first.',
      )
    }
    const context = {
      locker: this.#options.locker,
      instanceId: this.#options.presence.instanceId,
      events: this.#options.events,
      checkResources: (given: unknown) => checkResources(name, given),
      announceRelease: (share: string) => this.#roster.announceRelease(share),
      onResourcesChanged: () => this.#roster.wake(),
      leave: (left: Assignment) => this.#roster.remove(left),
    }
    const assignment = new Assignment(name, context, resources, work)
    this.#roster.add(assignment)
    return assignment
  }

  /** @internal Somebody has joined the share with this key, or left it. */
  onMembersChanged(key: string): void {
    this.#roster.onMembersChanged(key)
  }

  /** @internal Somebody has let go of resources of the share with this key. */
  onResourceReleased(key: string): void {
    this.#roster.onResourceReleased(key)
  }

  /** @internal What keeps this instance from owning, or from working on, its part of each share. */
  troubles(): HealthReason[] {
    return this.#roster.troubles()
  }

  /**
   * @internal Takes part in no division any more: what is owned for good is handed over at once. Rounds may come to their
   * end, for so long.
   */
  async drain(withinMs: number): Promise<void> {
    const reason = new InstanceDrainingError()
    this.#draining.abort(reason)
    const left = Promise.all(this.#roster.assignments.map((assignment) => assignment.close()))
    const rounds = Promise.allSettled([...this.#rounds])
    if (!(await resultWithin(withinMs, rounds))) this.#stopping.abort(reason)
    await Promise.all([left, rounds])
  }

  /** @internal Gives what is at work in this instance its expiry to end in. */
  async close(): Promise<void> {
    this.#calls.close()
    const assignments = this.#roster.assignments.map((assignment) => assignment.close())
    await resultWithin(this.#options.expiryMs, Promise.allSettled([...this.#rounds, ...assignments]))
    await this.#roster.close()
  }
}
