import {
  backoffMs,
  ClosedError,
  type Events,
  isAbortError,
  isInstance,
  orAborted,
  pause,
  Readiness,
  runHolding,
  type TracerSlot,
  whenAborted,
} from '../base/index.js'
import {
  type Database,
  type HealthReason,
  type HeldName,
  healthReasonOf,
  type NameLocker,
  type Presence,
  type Statement,
} from '../postgres/index.js'
import type { CandidateRow } from './candidate-row.js'
import type { ElectionPoller, ElectionState } from './election-poller.js'
import { Leadership } from './leadership.js'
import { electionKey, electionName } from './names.js'

export interface CampaignOptions {
  /**
   * Gives this instance priority: other instances yield while a preferred candidate is present. A preferred leader does
   * not yield to another preferred candidate. Default false.
   */
  preferred?: boolean | undefined
  /**
   * Returns whether this instance may lead now. Holdfast calls this function before the candidacy, and every 2 s while
   * the instance is a candidate or the leader. If the function returns false, the instance steps down. When the
   * function returns true again, the instance becomes a candidate again.
   */
  eligible?: (() => boolean | Promise<boolean>) | undefined
}

export type CampaignStatements = Record<'announce' | 'resign', Statement>

export interface ElectionsOptions {
  readonly database: Database
  readonly presence: Presence
  readonly locker: NameLocker
  readonly schema: string
  readonly namespace: string
  readonly expiryMs: number
  readonly events: Events
  readonly tracing: TracerSlot
}

interface CampaignContext extends ElectionsOptions {
  readonly poller: ElectionPoller
  readonly statements: CampaignStatements
  /** Row of a preferred candidate. Undefined for other candidates. */
  readonly row: CandidateRow | undefined
  readonly notification: readonly [channel: string, payload: string]
}

const pauseMs = 1_000
const maxPauseMs = 60_000
const recheckEveryMs = 2_000
/** Maximum time by which an announcement may delay the start of a term. */
const announceTimeoutMs = 1_000

/**
 * One instance's participation in an election, until the campaign is closed. The instance waits for the name, leads for
 * one term, pauses, and waits again. The instance becomes a candidate again only after the last term's function has
 * finished, so its terms never overlap.
 *
 * @example
 * await using campaign = holdfast.elections.campaign('indexer', async ({ signal }) => index({ signal }))
 */
export class Campaign {
  /** Name of the election. */
  readonly name: string
  readonly #context: CampaignContext
  readonly #work: (leadership: Leadership) => unknown
  readonly #options: CampaignOptions
  readonly #closing = new AbortController()
  readonly #running: Promise<void>
  readonly #readiness = new Readiness('The campaign')
  #candidacy: AbortController | undefined
  #leadership: Leadership | undefined
  #termEnding: Promise<void> = Promise.resolve()
  /** Epoch number in the last announcement. `#announcing` is the announcement in progress. */
  #announcedAs: number | undefined
  #announcing: Promise<unknown> = Promise.resolve()
  /** Call to `eligible` that is in progress. */
  #checkingEligibility: Promise<boolean> | undefined
  #failure: { readonly error: unknown } | undefined

  /** @internal */
  constructor(
    name: string,
    context: CampaignContext,
    work: (leadership: Leadership) => unknown,
    options: CampaignOptions,
  ) {
    this.name = name
    this.#context = context
    this.#work = work
    this.#options = options
    this.#running = this.#run()
  }

  /** Whether this instance leads now and has not been asked to step down. */
  get leads(): boolean {
    const leadership = this.#leadership
    return leadership?.held === true && !leadership.signal.aborted
  }

  /** Number of this instance's current term, or null if the instance is not the leader. */
  get term(): number | null {
    return this.leads ? this.#leadership!.term : null
  }

  /**
   * Resolves when this instance has become a candidate or the leader. Rejects if the next attempt to become a candidate
   * fails. The instance keeps trying, so you can call `ready` again. Waits while `eligible` returns false.
   *
   * @example
   * const campaign = holdfast.elections.campaign('indexer', work)
   * await campaign.ready()
   */
  ready(): Promise<void> {
    return this.#readiness.wait()
  }

  /**
   * Requests that this instance step down. Resolves when the function has finished and the name has been released. The
   * instance becomes a candidate again after 1 s, behind the other candidates. Inside the function, use
   * `leadership.stepDown`, which does not wait.
   *
   * @example
   * process.on('SIGUSR2', () => campaign.stepDown())
   */
  async stepDown(): Promise<void> {
    this.#leadership?.requestStepDown('asked')
    await this.#termEnding
  }

  /** Ends the campaign. Resolves when the function has finished. Further calls have no effect. */
  close(): Promise<void> {
    this.#closing.abort(new ClosedError('The campaign'))
    this.#readiness.close()
    this.#leadership?.requestStepDown('closing')
    return this.#running
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal Failure that has caused the campaign to pause. */
  get trouble(): HealthReason | undefined {
    const what = `The campaign for "${this.name}" is paused after a failure`
    return this.#failure && healthReasonOf('CAMPAIGN_FAILED', what, this.#failure.error)
  }

  /** @internal */
  get whenClosed(): Promise<void> {
    return this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    const unfollow = this.#context.poller.follow(this.name, {
      onState: (state) => void this.#onState(state).catch((error) => this.#report(error)),
      onError: (error) => this.#report(error),
    })
    let yields = 0
    for (let failures = 0; !signal.aborted; ) {
      let term: TermResult | undefined
      let failure: { error: unknown } | undefined
      try {
        term = await this.#runTerm()
        failure = term?.failure
      } catch (error) {
        if (!isInstance(error, NotEligible)) failure = { error }
      }
      if (signal.aborted) break
      if (failure) {
        if (term && term.lastedMs > maxPauseMs) failures = 0
        this.#failure = failure
        this.#readiness.fail(failure.error)
        this.#report(failure.error)
        await pause(backoffMs(failures++, pauseMs * 2, maxPauseMs), signal)
        this.#failure = undefined
      } else if (term?.hasYielded) await pause(backoffMs(yields++, 20, recheckEveryMs), signal)
      // No pause is needed after the name is lost, because other candidates are ahead in the queue.
      else if (term && !term.isLost) await pause(pauseMs, signal)
      if (term && !term.hasYielded) yields = 0
    }
    unfollow()
  }

  /** Waits for the name and leads for one term. Always releases the name. */
  async #runTerm(): Promise<TermResult> {
    const heldName = await this.#acquireName()
    try {
      const hasYielded = (await this.#announce(heldName)) === 'yields'
      return hasYielded ? { hasYielded, isLost: false, lastedMs: 0 } : await this.#lead(heldName)
    } finally {
      await heldName.release()
    }
  }

  /** Resolves when the name is granted. Throws when this instance is no longer eligible. */
  async #acquireName(): Promise<HeldName> {
    const { presence } = this.#context
    const { signal } = this.#closing
    while (!(await orAborted(signal, this.#isEligible()))) {
      await pause(recheckEveryMs, signal)
      signal.throwIfAborted()
    }
    await presence.whenPresent(signal)
    const candidacy = new AbortController()
    const forget = whenAborted(signal, (reason) => candidacy.abort(reason))
    this.#candidacy = candidacy
    try {
      await this.#context.row?.enroll()
      return await this.#acquire(candidacy.signal)
    } catch (error) {
      await this.#context.row?.withdraw()
      throw error
    } finally {
      this.#candidacy = undefined
      forget()
    }
  }

  async #acquire(signal: AbortSignal): Promise<HeldName> {
    const { locker } = this.#context
    const name = electionName(this.name)
    if (!this.#readiness.isReady) {
      // A call that waits receives no response until the name is granted. This call does not wait. Its response shows
      // that this instance can be a candidate.
      const heldName = await locker.tryAcquire(name, { signal })
      this.#readiness.succeed()
      if (heldName) return heldName
      signal.throwIfAborted()
    }
    return locker.acquire(name, { signal })
  }

  async #lead(heldName: HeldName): Promise<TermResult> {
    const startedAt = performance.now()
    const leadership = new Leadership(this.name, heldName)
    const outcome = () => ({ hasYielded: false, isLost: !leadership.held, lastedMs: performance.now() - startedAt })
    this.#leadership = leadership
    let ended = () => {}
    this.#termEnding = new Promise((resolve) => {
      ended = resolve
    })
    if (this.#closing.signal.aborted) leadership.requestStepDown('closing')
    try {
      const { database, namespace } = this.#context
      const held = { handle: heldName, keys: [electionKey(namespace, this.name)], address: database.address }
      if (!leadership.signal.aborted) await runHolding(held, () => this.#runWork(leadership))
      return outcome()
    } catch (error) {
      return isAbortError(leadership.signal, error) ? outcome() : { ...outcome(), failure: { error } }
    } finally {
      this.#reportEnd(leadership, performance.now() - startedAt)
      this.#leadership = undefined
      await Promise.all([leadership.end(), this.#resign(leadership.term), this.#context.row?.withdraw()]).finally(ended)
    }
  }

  async #runWork(leadership: Leadership): Promise<void> {
    const { events, tracing } = this.#context
    const { name } = this
    const { term } = leadership
    events.emitter('election.elected')?.({ name, term })
    const { tracer } = tracing
    await (tracer
      ? tracer.withSpan('election term', { name, term }, () => this.#work(leadership))
      : this.#work(leadership))
  }

  #reportEnd({ name, term, held, signal }: Leadership, ledMs: number): void {
    const { events } = this.#context
    if (held) {
      const reason: Error | undefined = signal.aborted ? signal.reason : undefined
      events.emitter('election.resigned')?.({ name, term, ledMs, reason })
    } else events.emitter('election.lost')?.({ name, term, ledMs, reason: signal.reason })
  }

  /** Runs after every poll. */
  async #onState(state: ElectionState): Promise<void> {
    const number = this.#context.presence.epoch?.number
    const leadership = this.#leadership
    if (leadership && !this.#options.preferred && state.preferred) leadership.requestStepDown('preferred')
    if (leadership && number !== this.#announcedAs) void this.#announceAgain(leadership)
    // Only the poll that called `eligible` acts on the result, no matter how long the call takes.
    if ((leadership || this.#candidacy) && !this.#checkingEligibility && !(await this.#isEligible())) {
      this.#candidacy?.abort(new NotEligible())
      this.#leadership?.requestStepDown('not-eligible')
    }
  }

  /** Calls `eligible`, or joins the call in progress. */
  #isEligible(): Promise<boolean> {
    this.#checkingEligibility ??= this.#callEligible().finally(() => {
      this.#checkingEligibility = undefined
    })
    return this.#checkingEligibility
  }

  async #callEligible(): Promise<boolean> {
    const { eligible } = this.#options
    try {
      return !eligible || (await eligible())
    } catch (error) {
      this.#readiness.fail(error)
      this.#report(error)
      return false
    }
  }

  /** Announces the term to followers. If the announcement fails, the next poll repeats the announcement. */
  #announce(heldName: Pick<HeldName, 'fence'>): Promise<'announced' | 'yields' | 'failed'> {
    const { database, presence, statements, namespace, notification } = this.#context
    const number = presence.epoch?.number
    if (number === undefined) return Promise.resolve('failed')
    const values = [namespace, this.name, presence.instanceId, number, heldName.fence, this.#options.preferred ?? false]
    const announcing = database
      .query<{ yields: boolean }>(statements.announce.text, [...values, ...notification], announceTimeoutMs)
      .then(
        ([row]) => {
          this.#announcedAs = number
          return row!.yields ? ('yields' as const) : ('announced' as const)
        },
        () => 'failed' as const,
      )
    this.#announcing = announcing
    return announcing
  }

  async #announceAgain(leadership: Leadership): Promise<void> {
    const outcome = await this.#announce({ fence: leadership.term })
    if (outcome === 'yields') leadership.requestStepDown('preferred')
  }

  async #resign(term: number): Promise<void> {
    const { database, statements, namespace, notification } = this.#context
    await this.#announcing
    this.#announcedAs = undefined
    const values = [namespace, this.name, term, ...notification]
    // If the statement fails, followers consider the row valid until the next term begins or this instance is no longer
    // present.
    await database.query(statements.resign.text, values, announceTimeoutMs).catch(() => {})
  }

  #report(error: unknown): void {
    this.#context.events.emitter('election.failed')?.({ name: this.name, error })
  }
}

/** A term's result. */
interface TermResult {
  /** Whether the instance yielded to a preferred candidate. */
  readonly hasYielded: boolean
  readonly isLost: boolean
  readonly lastedMs: number
  /**
   * Value that the function threw, unless the value is the abort reason of the function's signal. The value is wrapped
   * in an object, because a function can throw any value, even undefined.
   */
  readonly failure?: { readonly error: unknown }
}

/** Error that ends the candidacy of an instance that is no longer eligible. */
class NotEligible extends Error {}
