import {
  backoffMs,
  ClosedError,
  type Events,
  isInstance,
  pause,
  runHolding,
  saysAborted,
  type Tracing,
  unlessAborted,
  whenAborted,
} from '../base/index.js'
import {
  type Database,
  type HealthReason,
  type Keeper,
  type Kept,
  type Presence,
  type Statement,
  troubleOf,
} from '../postgres/index.js'
import { Leadership } from './leadership.js'
import type { Lookout, Sight } from './lookout.js'
import { electionKey, electionName } from './names.js'

export interface CampaignOptions {
  /**
   * Leads rather than those who are not preferred: they make room while a preferred instance is there to lead. Among
   * several that are preferred, whoever leads goes on. Default false.
   */
  preferred?: boolean | undefined
  /**
   * Whether this instance may lead, now. Asked before it stands, and every two seconds while it stands or leads: when it
   * says no, the instance steps down, and stands again when it says yes.
   */
  eligible?: (() => boolean | Promise<boolean>) | undefined
}

export type CampaignStatements = Record<'announce' | 'resign' | 'stand' | 'withdraw', Statement>

/** What a campaign stands on. */
interface CampaignGround {
  readonly database: Database
  readonly presence: Presence
  readonly keeper: Keeper
  readonly lookout: Lookout
  readonly statements: CampaignStatements
  readonly schema: string
  readonly namespace: string
  readonly events: Events
  readonly tracing: Tracing
}

const pauseMs = 1_000
const longestPauseMs = 60_000
const lookAgainMs = 2_000
/** Telling who leads must not hold up the leader for longer. */
const tellWithinMs = 1_000

/**
 * One instance's part in an election, until it is closed.
 *
 *     not eligible ──► standing ──► granted ──► leading ──► ending ──► pause ──► standing …
 *          ▲              │            │
 *          └──────────────┘            └─► yields to a preferred candidate, pause, standing
 *
 * - **standing**: in the queue for the name `election/<name>`.
 * - **granted**: it says so in a row, and hears in the same statement whether a preferred candidate is there.
 * - **leading**: the function runs.
 * - **ending**: the term is lost or to be given up; the function has been told by its signal, and has not ended yet. When
 *   it was asked to step down it holds the name until then.
 *
 * Only when the function has ended does this instance stand again: its terms never overlap.
 *
 * @example
 * await using campaign = holdfast.elections.campaign('indexer', async ({ signal }) => index({ signal }))
 */
export class Campaign {
  /** The name of the election. */
  readonly name: string
  readonly #ground: CampaignGround
  readonly #work: (leadership: Leadership) => unknown
  readonly #options: CampaignOptions
  readonly #hint: readonly [channel: string, payload: string]
  readonly #closing = new AbortController()
  readonly #running: Promise<void>
  #standing: AbortController | undefined
  #leadership: Leadership | undefined
  #ending: Promise<void> = Promise.resolve()
  /** Under which number the fleet was told that this instance leads, and the telling itself. */
  #toldAs: number | undefined
  #telling: Promise<unknown> = Promise.resolve()
  /** Under which number it is a preferred candidate, and the writing of it. */
  #enrolledAs: number | undefined
  #enrolling: Promise<void> = Promise.resolve()
  /** Whether it is eligible, while that is being asked. */
  #asking: Promise<boolean> | undefined
  #failure: { readonly error: unknown } | undefined

  /** @internal */
  constructor(
    name: string,
    ground: CampaignGround,
    work: (leadership: Leadership) => unknown,
    options: CampaignOptions,
  ) {
    this.name = name
    this.#ground = ground
    this.#work = work
    this.#options = options
    this.#hint = [ground.schema, `election ${electionKey(ground.namespace, name)}`]
    this.#running = this.#run()
  }

  /** Whether this instance leads at this very moment, and was not asked to step down. */
  get leads(): boolean {
    const leadership = this.#leadership
    return leadership?.held === true && !leadership.signal.aborted
  }

  /** The number of the present term of this instance; null when it does not lead. */
  get term(): number | null {
    return this.leads ? this.#leadership!.term : null
  }

  /**
   * Asks the function to end, and resolves when it has and the name is given back. The instance stands again after a
   * pause of a second, behind those who waited. From inside the function use its own `stepDown`, which does not wait.
   *
   * @example
   * process.on('SIGUSR2', () => campaign.stepDown())
   */
  async stepDown(): Promise<void> {
    this.#leadership?.askToStepDown('asked')
    await this.#ending
  }

  /** Steps down, or stops waiting, for good. Resolves when the function has ended. Asking again is harmless. */
  close(): Promise<void> {
    this.#closing.abort(new ClosedError('The campaign'))
    this.#leadership?.askToStepDown('closing')
    return this.#running
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal Why it pauses. */
  get trouble(): HealthReason | undefined {
    const what = `The campaign for "${this.name}" pauses after a failure`
    return this.#failure && troubleOf('CAMPAIGN_FAILED', what, this.#failure.error)
  }

  /** @internal */
  get whenClosed(): Promise<void> {
    return this.#running
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing
    const unfollow = this.#ground.lookout.follow(this.name, {
      sees: (sight) => void this.#see(sight).catch((error) => this.#report(error)),
      fails: (error) => this.#report(error),
    })
    let yields = 0
    for (let failures = 0; !signal.aborted; ) {
      let term: Term | undefined
      let failure: { error: unknown } | undefined
      try {
        term = await this.#runTerm()
        failure = term?.failure
      } catch (error) {
        if (!isInstance(error, NotEligible)) failure = { error }
      }
      if (signal.aborted) break
      if (failure) {
        if (term && term.lastedMs > longestPauseMs) failures = 0
        this.#failure = failure
        this.#report(failure.error)
        await pause(backoffMs(failures++, pauseMs * 2, longestPauseMs), signal)
        this.#failure = undefined
      } else if (term?.hasYielded) await pause(backoffMs(yields++, 20, lookAgainMs), signal)
      // Whoever lost it stands again at once: others may be waiting already, and have a start.
      else if (term && !term.isLost) await pause(pauseMs, signal)
      if (term && !term.hasYielded) yields = 0
    }
    unfollow()
  }

  /** Stands, and leads for one term. Whatever happens after the grant, the name is given back. */
  async #runTerm(): Promise<Term> {
    const kept = await this.#stand()
    try {
      const hasYielded = (await this.#announce(kept)) === 'yields'
      return hasYielded ? { hasYielded, isLost: false, lastedMs: 0 } : await this.#lead(kept)
    } finally {
      await kept.release()
    }
  }

  /** Until the name is granted. Throws when this instance is not eligible any more. */
  async #stand(): Promise<Kept> {
    const { keeper, presence } = this.#ground
    const { signal } = this.#closing
    while (!(await unlessAborted(signal, this.#isEligible()))) {
      await pause(lookAgainMs, signal)
      signal.throwIfAborted()
    }
    await presence.whenLiving(signal)
    const standing = new AbortController()
    const forget = whenAborted(signal, (reason) => standing.abort(reason))
    this.#standing = standing
    try {
      await this.#enroll()
      return await keeper.acquire(electionName(this.name), { signal: standing.signal })
    } catch (error) {
      await this.#withdraw()
      throw error
    } finally {
      this.#standing = undefined
      forget()
    }
  }

  /** Runs the function for one term. */
  async #lead(kept: Kept): Promise<Term> {
    const beganAt = performance.now()
    const leadership = new Leadership(this.name, kept)
    const outcome = () => ({ hasYielded: false, isLost: !leadership.held, lastedMs: performance.now() - beganAt })
    this.#leadership = leadership
    let ended = () => {}
    this.#ending = new Promise((resolve) => {
      ended = resolve
    })
    if (this.#closing.signal.aborted) leadership.askToStepDown('closing')
    try {
      const { database, namespace } = this.#ground
      const held = { handle: kept, keys: [electionKey(namespace, this.name)], address: database.address }
      if (!leadership.signal.aborted) await runHolding(held, () => this.#workFor(leadership))
      return outcome()
    } catch (error) {
      return saysAborted(leadership.signal, error) ? outcome() : { ...outcome(), failure: { error } }
    } finally {
      this.#tellEnd(leadership, performance.now() - beganAt)
      this.#leadership = undefined
      await Promise.all([leadership.end(), this.#resign(leadership.term), this.#withdraw()]).finally(ended)
    }
  }

  async #workFor(leadership: Leadership): Promise<void> {
    const { events, tracing } = this.#ground
    const { name } = this
    const { term } = leadership
    events.to('election.elected')?.({ name, term })
    const { tracer } = tracing
    await (tracer
      ? tracer.around('election term', { name, term }, () => this.#work(leadership))
      : this.#work(leadership))
  }

  #tellEnd({ name, term, held, signal }: Leadership, ledMs: number): void {
    const { events } = this.#ground
    if (held) {
      const reason: Error | undefined = signal.aborted ? signal.reason : undefined
      events.to('election.resigned')?.({ name, term, ledMs, reason })
    } else events.to('election.lost')?.({ name, term, ledMs, reason: signal.reason })
  }

  /** At every look of the lookout. */
  async #see(sight: Sight): Promise<void> {
    const number = this.#ground.presence.life?.number
    if (this.#standing && number !== this.#enrolledAs) void this.#enroll()
    const leadership = this.#leadership
    if (leadership && !this.#options.preferred && sight.preferred) leadership.askToStepDown('preferred')
    if (leadership && number !== this.#toldAs) void this.#announceAgain(leadership)
    // Whoever asked last acts on the answer, however long that takes.
    if ((leadership || this.#standing) && !this.#asking && !(await this.#isEligible())) {
      this.#standing?.abort(new NotEligible())
      this.#leadership?.askToStepDown('not-eligible')
    }
  }

  /** One question at a time, however long its answer takes. */
  #isEligible(): Promise<boolean> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #ask(): Promise<boolean> {
    const { eligible } = this.#options
    try {
      return !eligible || (await eligible())
    } catch (error) {
      this.#report(error)
      return false
    }
  }

  /** Tells the fleet who leads. It may fail: the lookout sees to it that it is told again. */
  #announce(kept: Pick<Kept, 'fence'>): Promise<'told' | 'yields' | 'untold'> {
    const { database, presence, statements, namespace } = this.#ground
    const number = presence.life?.number
    if (number === undefined) return Promise.resolve('untold')
    const values = [namespace, this.name, presence.instanceId, number, kept.fence, this.#options.preferred ?? false]
    const telling = database
      .query<{ yields: boolean }>(statements.announce.text, [...values, ...this.#hint], tellWithinMs)
      .then(
        ([row]) => {
          this.#toldAs = number
          return row!.yields ? ('yields' as const) : ('told' as const)
        },
        () => 'untold' as const,
      )
    this.#telling = telling
    return telling
  }

  async #announceAgain(leadership: Leadership): Promise<void> {
    const isTold = await this.#announce({ fence: leadership.term })
    if (isTold === 'yields') leadership.askToStepDown('preferred')
  }

  async #resign(term: number): Promise<void> {
    const { database, statements, namespace } = this.#ground
    await this.#telling
    this.#toldAs = undefined
    const values = [namespace, this.name, term, ...this.#hint]
    // If it fails, the row is believed until the next term, or for as long as this instance is present.
    await database.query(statements.resign.text, values, tellWithinMs).catch(() => {})
  }

  #enroll(): Promise<void> {
    if (this.#options.preferred) this.#enrolling = this.#enrollNow()
    return this.#enrolling
  }

  async #enrollNow(): Promise<void> {
    const { database, presence, statements, namespace } = this.#ground
    const number = presence.life?.number
    if (number === undefined) return
    const values = [namespace, this.name, number, ...this.#hint]
    // If it fails, the lookout sees to it that it is done again.
    await database.query(statements.stand.text, values, tellWithinMs).then(
      () => {
        this.#enrolledAs = number
      },
      () => {},
    )
  }

  async #withdraw(): Promise<void> {
    const { database, statements, namespace } = this.#ground
    await this.#enrolling
    if (this.#enrolledAs === undefined) return
    const values = [namespace, this.name, this.#enrolledAs]
    this.#enrolledAs = undefined
    await database.query(statements.withdraw.text, values, tellWithinMs).catch(() => {})
  }

  #report(error: unknown): void {
    this.#ground.events.to('election.failed')?.({ name: this.name, error })
  }
}

/** What became of a term. */
interface Term {
  /** A preferred candidate leads instead. */
  readonly hasYielded: boolean
  readonly isLost: boolean
  readonly lastedMs: number
  /** What the function threw, unless that only echoes its signal. Boxed, because it may be any value. */
  readonly failure?: { readonly error: unknown }
}

/** Ends the wait of an instance that is not eligible any more. */
class NotEligible extends Error {}
