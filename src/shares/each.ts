import { backoffMs, isRetryable, pause } from '../base/index.js'
import type { HeldName, NameLocker, Presence } from '../postgres/index.js'
import { type ResourceFailure, ResourcesFailedError } from './errors.js'
import { OwnedResource, resourceName } from './owned-resource.js'
import type { Round, ShareStore } from './store.js'

export interface EachResult {
  /** Resources that this call processed. */
  readonly done: string[]
  /**
   * Resources that other instances have processed. Without `waitForOthers`, also resources that they are still
   * processing.
   */
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

/** Resource that this instance holds. A read after the grant showed that the resource was not done. */
interface ClaimedResource {
  readonly owned: OwnedResource
  readonly session: number
  readonly startedAt: number
}

/** Target duration of the work that is claimed in advance. Other instances cannot start this work in the meantime. */
const prefetchMs = 50
const maxPrefetched = 200
const maxRecording = 500
const minPauseMs = 25
const maxPauseMs = 1_000

/**
 * One call to `shares.each`. The call tries the resources in passes, from a random start, until each resource is done,
 * skipped or failed. The README contains the state diagram. After each grant, the call reads again which resources are
 * done, so no resource is processed twice in a round. The previous holder recorded its work before it released the
 * lock, so this read sees the record.
 */
export class EachCall {
  readonly #context: EachContext
  readonly #share: string
  readonly #work: (resource: string, owned: OwnedResource) => unknown
  readonly #settings: EachSettings
  readonly #resources: readonly string[]
  /** Resources that have no result yet and that this call is not processing. */
  readonly #open: Set<string>
  readonly #done: string[] = []
  readonly #skipped: string[] = []
  readonly #failed: ResourceFailure[] = []
  readonly #ready: ClaimedResource[] = []
  readonly #recording = new Set<Promise<void>>()
  /** Resources that this pass has not tried yet. */
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
      // Afterwards, resources whose locks were lost are open again, and the loop continues.
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
    // The call processes more resources while results are being recorded, up to a limit.
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
      // After an abort the work may be incomplete, even if the function returned.
      if (owned.signal.aborted) this.#reopen(owned)
      else if (failure) this.#failed.push({ resource, error: failure.error })
      else if (await this.#context.store.record(this.#settings.round, owned, session, startedAt))
        this.#done.push(resource)
      else this.#reopen(owned)
    } catch (error) {
      this.#failed.push({ resource, error })
    }
    // If the release fails, the name becomes free when its session or lease ends.
    await owned.end().catch(() => {})
  }

  #reopen(owned: OwnedResource): void {
    const { resource, signal } = owned
    if (this.#settings.waitForOthers) this.#open.add(resource)
    else
      this.#failed.push({
        resource,
        error: signal.reason ?? new Error('The resource was lost before it could be recorded'),
      })
  }

  /** Claims more resources, or waits if other instances hold all the remaining resources. */
  async #claimMore(): Promise<void> {
    try {
      if (this.#mustRefresh) await this.#refreshDone()
      if (this.#open.size === 0) return
      if (this.#untried.length > 0) return await this.#claim(this.#untried.splice(0, this.#claimSize()))
      if (!this.#settings.waitForOthers) return this.#skipRest()
      if (this.#wasIdle) await this.#waitForOne()
      this.#mustRefresh = true
    } catch (error) {
      // With `waitForOthers`, the call also waits until the database is reachable.
      if (!this.#settings.waitForOthers || !isRetryable(error)) this.#failure = { error }
      else await pause(backoffMs(this.#idlePasses++, minPauseMs, maxPauseMs), this.#settings.signal)
    }
  }

  #claimSize(): number {
    const { concurrency } = this.#settings
    const each = Math.max(1, Math.floor(prefetchMs / Math.max(this.#averageMs, prefetchMs / maxPrefetched)))
    return Math.max(concurrency, Math.min(maxPrefetched, concurrency * each))
  }

  /** Reads which open resources are done, then begins or continues a pass over the remaining resources. */
  async #refreshDone(): Promise<void> {
    const { now, done } = await this.#context.store.readDone(this.#settings.round, [...this.#open], this.#calledAt)
    this.#calledAt ??= now
    for (const resource of done) this.#skip(resource)
    // Resources that this pass has tried are not tried again before the next pass.
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
    // The next pass tries the failed names again.
    if (failure) throw failure.error
  }

  /**
   * Reads which of the granted resources are done. Previous holders recorded resources before they released them, so
   * this read sees their records.
   */
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
          const owned = new OwnedResource(resource, heldName, this.#settings.signal)
          this.#ready.push({ owned, session, startedAt: now })
        } else {
          this.#skip(resource)
          releases.push(heldName.release())
        }
      }
      // Other instances are also working on this round, so they have probably completed more resources in the meantime.
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

  /** Waits for one busy resource, so that this call takes over a dead instance's resources immediately. */
  async #waitForOne(): Promise<void> {
    const pauseMs = backoffMs(this.#idlePasses++, minPauseMs, maxPauseMs)
    const open = [...this.#open]
    const resource = open[Math.floor(Math.random() * open.length)]!
    // A wait occupies a connection, so the call pauses instead if the wait would be short.
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
