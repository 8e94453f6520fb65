import {
  Calls,
  checkWork,
  combineSignals,
  DrainingError,
  type Duration,
  defaultTimes,
  type Events,
  hashedKey,
  type Instant,
  type OptionsAndWork,
  readWork,
  resultWithin,
  UsageError,
} from '../base/index.js'
import { type Database, type HealthReason, loadStatements, type NameLocker, type Presence } from '../postgres/index.js'
import { Assignment, type Resources } from './assignment.js'
import { EachCall, type EachResult } from './each.js'
import { checkResources, checkShare, readEachOptions } from './input.js'
import { type OwnedResource, resourceName } from './owned-resource.js'
import { Roster, type RosterStatements } from './roster.js'
import { ShareStore, type ShareStoreStatements } from './store.js'

export interface EachOptions {
  /**
   * Name of the round as a string or a point in time, for example a schedule's tick. Within a week, each resource is
   * processed only once in a round with the same name, even if a call is made late.
   */
  round?: string | Instant | undefined
  /**
   * Applies to rounds without a name. Calls that begin within this time of each other belong to the same round. A call
   * skips a resource whose work began less than this time before the call, or ended after the call began. Default 10 s.
   */
  window?: Duration | undefined
  /** Maximum number of resources that this instance processes at the same time. Default 1. */
  concurrency?: number | undefined
  /**
   * With `true` (the default), the call continues until each resource has been completed by some instance or has failed
   * in this call. The call also takes over dead instances' resources. With `false`, the call skips resources that other
   * instances are processing.
   */
  waitForOthers?: boolean | undefined
  /**
   * Signal that stops the call. When the signal aborts, the call starts no more resources, and the signals of running
   * functions abort.
   */
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
 * Divides the work on many resources among instances, either in rounds (`each`) or with one owner per resource
 * (`assign`).
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
  /** Controller that aborts this instance's rounds. */
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
   * Processes every resource that no other instance is processing or has completed in this round, from a random start.
   * Instances that call `each` at about the same time divide the resources by trying their locks. A resource is
   * recorded as done if `work` succeeds and the resource is still held.
   *
   * Throws `ResourcesFailedError` if `work` threw an error for some resources. The other resources are processed first.
   *
   * @example
   * const { done, skipped } = await holdfast.shares.each('cities', cities, { round: tick }, assignSequences)
   */
  each(
    name: string,
    resources: readonly string[],
    work: (resource: string, owned: OwnedResource) => Promise<unknown> | unknown,
  ): Promise<EachResult>
  /** Processes resources with options. */
  each(
    name: string,
    resources: readonly string[],
    options: EachOptions,
    work: (resource: string, owned: OwnedResource) => Promise<unknown> | unknown,
  ): Promise<EachResult>
  /** @internal */
  async each(
    name: string,
    resources: readonly string[],
    ...rest: OptionsAndWork<EachOptions, (resource: string, owned: OwnedResource) => Promise<unknown> | unknown>
  ): Promise<EachResult> {
    checkShare(name)
    const list = checkResources(name, resources)
    const [options, work] = readWork('shares.each', rest)
    const { concurrency = 1, waitForOthers = true, signal, ...read } = readEachOptions(options)
    const giveUp = combineSignals(this.#calls.closing, this.#stopping.signal, signal)
    const windowMs = read.round === undefined ? (read.window ?? defaultTimes.shareWindowMs) : null
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
      true,
      () => call.run(),
    )
    this.#rounds.add(running)
    try {
      return await running
    } finally {
      this.#rounds.delete(running)
      giveUp.forget()
      this.#store.sweepSometimes()
    }
  }

  /**
   * Joins a share: runs `work` for each resource that is assigned to this instance, until the resource moves. The
   * resources are spread evenly over the instances that assign the same share, and few resources move when an instance
   * joins or leaves.
   *
   * - Before a resource moves, its `signal` aborts. Its next owner starts after `work` has ended, so a resource never
   *   has two owners.
   * - If `work` returns while the resource is owned, it runs again after a second. If it throws, `share.failed` is
   *   emitted, and it runs again after a pause that grows up to a minute.
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
        `This instance already takes part in the share "${name}"`,
        'Call update() on the assignment that shares.assign returned, or close that assignment first.',
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

  /** @internal */
  onMembersChanged(key: string): void {
    this.#roster.onMembersChanged(key)
  }

  /** @internal */
  onResourceReleased(key: string): void {
    this.#roster.onResourceReleased(key)
  }

  /** @internal Reasons why this instance does not own its part of each share. */
  troubles(): HealthReason[] {
    return this.#roster.troubles()
  }

  /** @internal Closes all assignments immediately. Rounds have up to `withinMs` to finish. */
  async drain(withinMs: number): Promise<void> {
    const reason = new DrainingError('instance')
    this.#draining.abort(reason)
    const left = Promise.all(this.#roster.assignments.map((assignment) => assignment.close()))
    const rounds = Promise.allSettled([...this.#rounds])
    if (!(await resultWithin(withinMs, rounds))) this.#stopping.abort(reason)
    await Promise.all([left, rounds])
  }

  /** @internal Waits for work in progress, at most until the expiry. */
  async close(): Promise<void> {
    this.#calls.close()
    const assignments = this.#roster.assignments.map((assignment) => assignment.close())
    await resultWithin(this.#options.expiryMs, Promise.allSettled([...this.#rounds, ...assignments]))
    await this.#roster.close()
  }
}
