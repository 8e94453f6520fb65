import { backoffMs, isRetryable, pause } from '../base/index.js'
import type { HeldName, NameLocker, Presence } from '../postgres/index.js'
import { type ResourceFailure, ResourcesFailedError } from './errors.js'
import { OwnedResource, resourceName } from './owned-resource.js'
import type { Round, ShareStore } from './store.js'

export interface EachResult {
  /** What this call has done. */
  readonly done: string[]
  /** What others have done, or (without `waitForOthers`) are at work on. */
  readonly skipped: string[]
}

interface EachContext {
  readonly locker: NameLocker
  readonly presence: Presence
  readonly store: ShareStore
}

interface EachSettings {
  readonly round: Round
  readonly concurrency: number
  readonly waitForOthers: boolean
  readonly signal: AbortSignal | undefined
}

/** A resource that is held, and was not done when it was looked at after that. */
interface ClaimedResource {
  readonly owned: OwnedResource
  readonly session: number
  readonly startedAt: number
}

/** Only so much is taken ahead as is worked on in this time: what is taken ahead, nobody else can begin. */
const prefetchMs = 50
const maxPrefetched = 200
const maxRecording = 500
const minPauseMs = 25
const maxPauseMs = 1_000

/**
 * One call of `shares.each`. Goes through the resources in passes, from a random place on, until all are decided:
 *
 *     open ──► taken ──► looked at again ──► worked on ──► recorded, released: done
 *      ▲ ▲       │             │                 │
 *      │ └─ busy ┘             └─► done by       ├─► failed
 *      │                           others        │
 *      └───────────── lost ──────────────────────┘
 *
 * The look after the lock is what makes a round a round: whoever had the resource before has recorded it before it let go.
 */
export class EachCall {
  readonly #context: EachContext
  readonly #share: string
  readonly #work: (resource: string, owned: OwnedResource) => unknown
  readonly #settings: EachSettings
  readonly #resources: readonly string[]
  /** Neither decided nor in work here. */
  readonly #open: Set<string>
  readonly #done: string[] = []
  readonly #skipped: string[] = []
  readonly #failed: ResourceFailure[] = []
  readonly #ready: ClaimedResource[] = []
  readonly #recording = new Set<Promise<void>>()
  /** What this pass has not tried yet. */
  #untried: string[] = []
  #claiming: Promise<void> | undefined
  #calledAt: number | null = null
  #mustRefresh = true
  #idlePasses = 0
  #wasIdle = true
  #averageMs = prefetchMs
  #failure: { error: unknown } | undefined

  constructor(
    context: EachContext,
    resources: readonly string[],
    work: (resource: string, owned: OwnedResource) => unknown,
    settings: EachSettings,
  ) {
    this.#context = context
    this.#work = work
    this.#settings = settings
    this.#share = settings.round.share
    const start = Math.floor(Math.random() * resources.length)
    this.#resources = [...resources.slice(start), ...resources.slice(0, start)]
    this.#open = new Set(this.#resources)
  }

  async run(): Promise<EachResult> {
    while (this.#open.size > 0 && !this.#hasEnded) {
      await Promise.all(Array.from({ length: this.#settings.concurrency }, () => this.#worker()))
      // What was lost is open again.
      await Promise.all(this.#recording)
    }
    await Promise.all(this.#ready.splice(0).map(({ owned }) => owned.end()))
    this.#settings.signal?.throwIfAborted()
    if (this.#failure) throw this.#failure.error
    if (this.#failed.length > 0) {
      throw new ResourcesFailedError(this.#share, this.#failed, this.#done, this.#skipped)
    }
    return { done: this.#done, skipped: this.#skipped }
  }

  get #hasEnded(): boolean {
    return this.#failure !== undefined || this.#settings.signal?.aborted === true
  }

  async #worker(): Promise<void> {
    for (;;) {
      const claimed = await this.#next()
      if (!claimed) return
      await this.#workOn(claimed)
    }
  }

  async #next(): Promise<ClaimedResource | undefined> {
    while (!this.#hasEnded) {
      const claimed = this.#ready.shift()
      if (claimed) return claimed
      if (this.#open.size === 0) return undefined
      this.#claiming ??= this.#claimMore().finally(() => {
        this.#claiming = undefined
      })
      await this.#claiming
    }
    return undefined
  }

  async #workOn({ owned, session, startedAt }: ClaimedResource): Promise<void> {
    const from = performance.now()
    let failure: { error: unknown } | undefined
    try {
      if (!owned.signal.aborted) await this.#work(owned.resource, owned)
    } catch (error) {
      failure = { error }
    }
    this.#averageMs += (performance.now() - from - this.#averageMs) / 4
    const recording = this.#recordResult(owned, session, startedAt, failure).finally(() =>
      this.#recording.delete(recording),
    )
    this.#recording.add(recording)
    // The next one begins while this one is recorded, but not any number of them.
    if (this.#recording.size >= maxRecording) await Promise.race(this.#recording)
  }

  async #recordResult(
    owned: OwnedResource,
    session: number,
    startedAt: number,
    failure: { error: unknown } | undefined,
  ): Promise<void> {
    const { resource } = owned
    try {
      // Whoever was told to stop may have stopped in the middle, whatever it says.
      if (owned.signal.aborted) this.#reopen(owned)
      else if (failure) this.#failed.push({ resource, error: failure.error })
      else if (await this.#context.store.record(this.#settings.round, owned, session, startedAt))
        this.#done.push(resource)
      else this.#reopen(owned)
    } catch (error) {
      this.#failed.push({ resource, error })
    }
    // What was done is done. Where it cannot be given back, it is free when the session or the lease that holds it is over.
    await owned.end().catch(() => {})
  }

  #reopen(owned: OwnedResource): void {
    const { resource, signal } = owned
    if (this.#settings.waitForOthers) this.#open.add(resource)
    else this.#failed.push({ resource, error: signal.reason ?? new Error('It was lost before it could be recorded') })
  }

  /** Takes some more, or waits a moment where everything left is taken by others. */
  async #claimMore(): Promise<void> {
    try {
      if (this.#mustRefresh) await this.#refreshDone()
      if (this.#open.size === 0) return
      if (this.#untried.length > 0) return await this.#claim(this.#untried.splice(0, this.#claimSize()))
      if (!this.#settings.waitForOthers) return this.#skipRest()
      if (this.#wasIdle) await this.#waitForOne()
      this.#mustRefresh = true
    } catch (error) {
      // Whoever stays goes on waiting, also for the database.
      if (!this.#settings.waitForOthers || !isRetryable(error)) this.#failure = { error }
      else await pause(backoffMs(this.#idlePasses++, minPauseMs, maxPauseMs), this.#settings.signal)
    }
  }

  #claimSize(): number {
    const { concurrency } = this.#settings
    const each = Math.max(1, Math.floor(prefetchMs / Math.max(this.#averageMs, prefetchMs / maxPrefetched)))
    return Math.max(concurrency, Math.min(maxPrefetched, concurrency * each))
  }

  /** One statement tells what is done of all that is open; then a pass begins over the rest. */
  async #refreshDone(): Promise<void> {
    const { now, done } = await this.#context.store.readDone(this.#settings.round, [...this.#open], this.#calledAt)
    this.#calledAt ??= now
    for (const resource of done) this.#skip(resource)
    // Those that were tried in this pass are tried again only when it is over.
    const untried = new Set(this.#untried)
    const isNewPass = untried.size === 0
    this.#untried = this.#resources.filter(
      (resource) => this.#open.has(resource) && (isNewPass || untried.has(resource)),
    )
    this.#mustRefresh = false
    if (isNewPass) this.#wasIdle = true
  }

  #skip(resource: string): void {
    if (this.#open.delete(resource)) this.#skipped.push(resource)
  }

  #skipRest(): void {
    for (const resource of [...this.#open]) this.#skip(resource)
  }

  async #claim(resources: readonly string[]): Promise<void> {
    const tries = resources.map((resource) => this.#context.locker.tryAcquire(resourceName(this.#share, resource)))
    const results = await Promise.allSettled(tries)
    const granted: [string, HeldName][] = []
    let failure: { error: unknown } | undefined
    for (const [at, result] of results.entries()) {
      if (result.status === 'rejected') failure = { error: result.reason }
      else if (result.value) granted.push([resources[at]!, result.value])
    }
    await this.#acceptGranted(granted)
    // What was asked for with it was given, or was busy; the rest is tried again in the next pass.
    if (failure) throw failure.error
  }

  /** Looks again at what was granted: what others did before is done, and this look comes after their last word. */
  async #acceptGranted(granted: readonly [string, HeldName][]): Promise<void> {
    if (granted.length === 0) return
    const { store, presence } = this.#context
    try {
      const { number: session } = presence.epoch ?? (await presence.whenPresent(this.#settings.signal))
      const resources = granted.map(([resource]) => resource)
      const { now, done } = await store.readDone(this.#settings.round, resources, this.#calledAt)
      const releases: Promise<void>[] = []
      for (const [resource, heldName] of granted) {
        if (!done.has(resource) && this.#open.delete(resource)) {
          this.#ready.push({
            owned: new OwnedResource(resource, heldName, this.#settings.signal),
            session,
            startedAt: now,
          })
        } else {
          this.#skip(resource)
          releases.push(heldName.release())
        }
      }
      // Others were here: most likely they have done more of what is left.
      if (done.size > 0) this.#mustRefresh = true
      if (done.size < granted.length) {
        this.#wasIdle = false
        this.#idlePasses = 0
      }
      await Promise.all(releases)
    } catch (error) {
      await Promise.all(granted.map(([, heldName]) => heldName.release()))
      throw error
    }
  }

  /** Everything left is taken by others: waits for one of them, so that what a dead instance leaves goes on at once. */
  async #waitForOne(): Promise<void> {
    const pauseMs = backoffMs(this.#idlePasses++, minPauseMs, maxPauseMs)
    const open = [...this.#open]
    const resource = open[Math.floor(Math.random() * open.length)]!
    // A wait takes up a connection, so it is not for a short while.
    if (pauseMs < maxPauseMs / 8) return pause(pauseMs, this.#settings.signal)
    const { signal } = this.#settings
    const heldName = await this.#context.locker
      .tryAcquire(resourceName(this.#share, resource), { wait: Math.round(pauseMs), ...(signal && { signal }) })
      .catch((error) => {
        if (signal?.aborted) return null
        throw error
      })
    if (heldName) await this.#acceptGranted([[resource, heldName]])
  }
}
