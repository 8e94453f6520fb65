import { backoffMs, type Events, isRetryable, Poller, Readiness } from '../base/index.js'
import { type HealthReason, type HeldName, healthReasonOf, type NameLocker } from '../postgres/index.js'
import { distribute } from './distribute.js'
import { ResourceMovedError } from './errors.js'
import { OwnedResource, resourceName } from './owned-resource.js'
import { Task } from './task.js'

/** Resources of a share, or a function that returns the resources. Holdfast calls the function about once a second. */
export type Resources = readonly string[] | (() => readonly string[] | Promise<readonly string[]>)

interface AssignmentContext {
  readonly locker: NameLocker
  readonly instanceId: string
  readonly events: Events
  /** Throws an error if the value is not a list of names. */
  checkResources(resources: unknown): readonly string[]
  /** Notifies the other members of released resources. */
  announceRelease(share: string): void
  /** Divides the new resources among the members. */
  onResourcesChanged(): void
  /** Ends this instance's membership. */
  leave(assignment: Assignment): Promise<void>
}

const minPauseMs = 25
const maxPauseMs = 1_000
const maxAtOnce = 500

/**
 * This instance's part of a share: the resources that the instance should own, and the resources that it owns. The
 * members that are present determine the distribution. Members may disagree for a short time, but each resource's lock
 * prevents two owners.
 *
 * @example
 * await using assignment = holdfast.shares.assign('feeds', feeds, async (feed, { signal }) => follow(feed, { signal }))
 */
export class Assignment {
  /** Name of the share. */
  readonly name: string
  readonly #context: AssignmentContext
  readonly #work: (resource: string, owned: OwnedResource) => unknown
  readonly #closing = new AbortController()
  readonly #tasks = new Map<string, Task>()
  #source: Resources
  #resources: readonly string[] = []
  #members: readonly string[] = []
  #assigned = new Set<string>()
  #dividedFor = ''
  readonly #claims = new Poller({
    isNeeded: () => this.#missing().length > 0,
    poll: () => this.#claimMissing(),
    pauseMs: (_, polls) => backoffMs(polls, minPauseMs, maxPauseMs),
    onError: (error) => this.report(error),
  })
  readonly #readiness = new Readiness('The assignment')
  #isListing = false
  /** Whether the resources are known. False until the user's function has returned the resources for the first time. */
  #isListed = true
  #closed: Promise<void> | undefined
  /** Error from the last attempt to list or acquire resources. */
  #failure: { readonly error: unknown } | undefined

  /** @internal */
  constructor(
    name: string,
    context: AssignmentContext,
    resources: Resources,
    work: (resource: string, owned: OwnedResource) => unknown,
  ) {
    this.name = name
    this.#context = context
    this.#source = resources
    this.#work = work
    if (typeof resources !== 'function') this.#resources = context.checkResources(resources)
    else this.#isListed = false
  }

  /**
   * Resolves when this instance has joined the share and has tried to acquire each of its resources. Other members may
   * still own some of these resources. Rejects if the next attempt to take part fails. The instance keeps trying, so
   * you can call `ready` again.
   *
   * @example
   * const assignment = holdfast.shares.assign('feeds', listFeeds, followFeed)
   * await assignment.ready()
   */
  ready(): Promise<void> {
    return this.#readiness.wait()
  }

  /** Resources that this instance currently owns, sorted by name. */
  get owned(): string[] {
    return [...this.#tasks.values()]
      .filter(({ owned }) => owned.held)
      .map(({ owned }) => owned.resource)
      .sort()
  }

  /**
   * Replaces the resources. While the members' lists differ, some resources may have no owner.
   *
   * @example
   * assignment.update(await listOfFeeds())
   */
  update(resources: Resources): void {
    if (typeof resources !== 'function') {
      this.#resources = this.#context.checkResources(resources)
      this.#isListed = true
      // The failure can come from the function that has listed the resources until now.
      this.#failure = undefined
    }
    this.#source = resources
    this.#context.onResourcesChanged()
  }

  /** Leaves the share. Aborts all functions' signals, and resolves when all resources have been released. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal Reason why this instance does not own its part. Undefined if it does. */
  get trouble(): HealthReason | undefined {
    if (this.#closing.signal.aborted) return undefined
    if (this.#failure) return healthReasonOf('SHARE_FAILED', `The share "${this.name}" fails`, this.#failure.error)
    for (const { owned, failure } of this.#tasks.values()) {
      const what = `The work on "${owned.resource}" of the share "${this.name}" is paused after a failure`
      if (failure) return healthReasonOf('SHARE_FAILED', what, failure.error)
    }
    return undefined
  }

  /** @internal Handles an error that prevents this instance from joining the share. */
  onJoinFailed(error: unknown): void {
    this.#readiness.fail(error)
    // Retryable errors are retried and not reported.
    if (!isRetryable(error)) this.report(error)
  }

  /** @internal Applies the current list of members. */
  divide(members: readonly string[]): void {
    if (this.#closing.signal.aborted) return
    this.#members = members
    void this.#listResources()
    this.#redivide()
  }

  /** @internal Tries to acquire the missing resources now, because another member released some of them. */
  wake(): void {
    this.#claims.wake()
  }

  /** @internal */
  report(error: unknown): void {
    this.#context.events.emitter('share.failed')?.({ share: this.name, error })
  }

  #redivide(): void {
    const dividedFor = JSON.stringify([this.#members, this.#resources])
    if (dividedFor !== this.#dividedFor) {
      this.#dividedFor = dividedFor
      const mine = distribute(this.#members, this.#resources).get(this.#context.instanceId) ?? []
      this.#assigned = new Set(mine)
      const all = new Set(this.#resources)
      for (const [resource, task] of this.#tasks) {
        if (this.#assigned.has(resource)) continue
        const reason = all.has(resource) ? 'moved' : 'dropped'
        task.requestRelease(new ResourceMovedError(this.name, resource, reason))
      }
      this.wake()
    }
    if (this.#isListed && this.#missing().length === 0) this.#readiness.succeed()
    this.#claims.start()
  }

  /** Calls the user's function that lists the resources. Two calls never overlap. */
  async #listResources(): Promise<void> {
    const source = this.#source
    if (typeof source !== 'function' || this.#isListing) return
    this.#isListing = true
    try {
      const resources = this.#context.checkResources(await source())
      if (this.#closing.signal.aborted || source !== this.#source) return
      this.#resources = resources
      this.#isListed = true
      this.#failure = undefined
      this.#redivide()
    } catch (error) {
      this.#failure = { error }
      this.#readiness.fail(error)
      this.report(error)
    } finally {
      this.#isListing = false
    }
  }

  #missing(): string[] {
    return [...this.#assigned].filter((resource) => !this.#tasks.has(resource))
  }

  /**
   * Tries to acquire each missing resource once. Does not wait for busy resources, because each wait would occupy a
   * connection.
   */
  async #claimMissing(): Promise<void> {
    const missing = this.#missing()
    for (let at = 0; at < missing.length; at += maxAtOnce) await this.#tryAll(missing.slice(at, at + maxAtOnce))
    if (this.#failure) this.#readiness.fail(this.#failure.error)
    else if (this.#isListed) this.#readiness.succeed()
  }

  async #tryAll(resources: readonly string[]): Promise<void> {
    const { locker } = this.#context
    const tries = resources.map((resource) => locker.tryAcquire(resourceName(this.name, resource)))
    const results = await Promise.allSettled(tries)
    const failures = new Set<unknown>()
    for (const [at, result] of results.entries()) {
      if (result.status === 'rejected') failures.add(result.reason)
      else if (result.value) this.#onGranted(resources[at]!, result.value)
    }
    this.#failure = failures.size > 0 ? { error: [...failures][0] } : undefined
    // Retryable errors are retried and not reported. An error that affects several names is reported once.
    for (const error of failures) if (!isRetryable(error)) this.report(error)
  }

  #onGranted(resource: string, heldName: HeldName): void {
    // Checks again, because the distribution may have changed during the request.
    if (!this.#assigned.has(resource) || this.#tasks.has(resource) || this.#closing.signal.aborted) {
      void heldName
        .release()
        .catch((error) => this.report(error))
        .finally(() => this.#context.announceRelease(this.name))
      return
    }
    const task = new Task(new OwnedResource(resource, heldName), this.#work, (error) => this.report(error))
    this.#tasks.set(resource, task)
    const { events } = this.#context
    const owned = { share: this.name, resource, fence: heldName.fence }
    events.emitter('share.gained')?.(owned)
    void task.ended.then(() => {
      this.#tasks.delete(resource)
      events.emitter('share.released')?.(owned)
      this.#context.announceRelease(this.name)
      this.wake()
      this.#claims.start()
    })
  }

  async #close(): Promise<void> {
    this.#closing.abort()
    this.#readiness.close()
    const claiming = this.#claims.close()
    for (const [resource, task] of this.#tasks)
      task.requestRelease(new ResourceMovedError(this.name, resource, 'closing'))
    const left = this.#context.leave(this)
    await claiming
    await Promise.all([...this.#tasks.values()].map(({ ended }) => ended))
    await left
  }
}
