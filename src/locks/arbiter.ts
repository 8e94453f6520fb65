import { backoffMs, type ClosedError, type HoldfastError, type Key, whenAborted } from '../base/index.js'
import {
  type Anchor,
  DatabaseUnreachableError,
  type Names,
  type Session,
  type Statement,
  sqlstate,
  sqlstateOf,
  type Waits,
} from '../postgres/index.js'
import { Budget } from './budget.js'
import { Hold, joinFreelyMs } from './hold.js'
import { Parking, type Place, type WaitStatements } from './parking.js'
import { type Mode, type TurnStatements, Turns } from './turns.js'

/**
 * Decides inside one process who may have a name, and speaks for all of them to the server.
 *
 * PostgreSQL decides between sessions, but says yes to a session that asks for what it holds already. So within a
 * process the arbiter is the authority: requests for a name stand in one queue, first come first served, and only
 * the first of them is brought before the server.
 *
 *     asked ──► queued ──► tried on the anchor ──► granted
 *                 ▲               │ busy
 *                 │               ├─► null, for those who would not wait
 *                 │               ▼
 *                 └──────── waits on a parked place, slice by slice ──► granted there
 *
 * - A request that times out or is aborted leaves the queue at once. What the server grants after that goes to the
 *   next in the queue that fits, and else is given back.
 * - When a name is released and somebody of this process is next, release and try go out as one statement; on a parked
 *   place, release and wait go out one behind the other. Waiters of other processes stand in the server's queue and get
 *   it first, so no process keeps a name to itself.
 * - Readers join a shared hold of their process. After a second, joining asks the server whether a writer waits
 *   elsewhere; if so, readers queue up until the hold has drained, so that writers are not starved.
 * - When the anchor is lost, those who hold are told, those who wait go on waiting for the next life, and those who
 *   would not wait get the error.
 */
export interface ArbiterOptions {
  readonly anchor: Anchor
  readonly names: Names
  readonly statements: TurnStatements & WaitStatements & { census: Statement }
  readonly expiryMs: number
  readonly parked: number
  /** Who is told who waits. */
  readonly waits: Waits
}

export interface Ask {
  readonly mode: Mode
  /** 0: only if it is free now. */
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  /** The keys that the same flow of control reads: a reader inside it must not stand behind a writer that waits for it. */
  readonly reading?: readonly string[]
  /** The keys that the same flow of control holds, for finding deadlocks. */
  readonly holding?: readonly string[]
}

/** One acquire that has not been decided yet. */
export interface Request {
  readonly kind: 'lock'
  readonly key: Key
  readonly ask: Ask
  readonly askedAt: number
  readonly settle: (outcome: Hold | null) => void
  readonly fail: (error: unknown) => void
}

interface Entry {
  readonly key: Key
  readonly queue: Request[]
  hold: Hold | undefined
  place: Place | undefined
  /** Whether somebody waits for others to let go, on a place or until one is free. */
  parked: boolean
  /** In which mode a place stands in the queue of the server now. */
  waiting: Mode | undefined
  /** Set while readers stand back for a writer elsewhere: when it goes off, they ask again. */
  standBack: NodeJS.Timeout | undefined
  /** Whether `#work` is going on for this name. */
  working: boolean
  onIdle: (() => void) | undefined
}

export class Arbiter {
  readonly #options: ArbiterOptions
  readonly #entries = new Map<string, Entry>()
  readonly #budget: Budget
  readonly #parking: Parking
  readonly #turnsOf = new WeakMap<Session, Turns>()
  readonly #closing = new AbortController()

  constructor(options: ArbiterOptions) {
    this.#options = options
    this.#budget = new Budget(options.statements.census)
    const newTurns = (session: Session) => this.#turns(session)
    this.#parking = new Parking(options.anchor, options.statements, options.expiryMs, options.parked, newTurns)
    options.anchor.onLoss((session, reason) => this.#lose(session, reason))
  }

  /** The hold, or null when the name was busy for as long as the request would wait. */
  acquire(key: Key, ask: Ask): Promise<Hold | null> {
    return new Promise((resolve, reject) => {
      if (this.#closing.signal.aborted) throw this.#closing.signal.reason
      this.#options.names.check(key)
      const outer = ask.reading?.includes(key.key) ? this.holdOf(key.key) : undefined
      if (outer?.mode === 'shared') {
        outer.users++
        return resolve(outer)
      }
      if (ask.waitMs === 0 && !this.#options.anchor.session) throw reconnecting()
      const entry = this.#entry(key)
      if (ask.waitMs === 0 && this.#isTakenHere(entry, ask)) return resolve(null)
      this.#enqueue(entry, ask, resolve, reject)
      void this.#work(entry)
    })
  }

  async release(hold: Hold): Promise<void> {
    if (--hold.users > 0) return
    const entry = this.#entries.get(hold.key.key)
    if (entry?.hold !== hold) return
    entry.hold = undefined
    // A place serves one name, so there is nobody to send the release together with.
    const alone = entry.place?.turns === hold.turns
    const released = alone ? hold.turns.releaseNow(hold.key, hold.mode) : hold.turns.release(hold.key, hold.mode)
    void this.#work(entry)
    await released
  }

  /** What is held now, for notes and for people. */
  *holds(): Iterable<Hold> {
    for (const entry of this.#entries.values()) if (entry.hold) yield entry.hold
  }

  /** Who waits now. */
  *waiting(): Iterable<Request> {
    for (const entry of this.#entries.values()) yield* entry.queue
  }

  holdOf(key: string): Hold | undefined {
    return this.#entries.get(key)?.hold
  }

  async close(reason: ClosedError): Promise<void> {
    this.#closing.abort(reason)
    for (const request of [...this.waiting()]) request.fail(reason)
    const holds = [...this.holds()]
    for (const hold of holds) {
      hold.lose(reason)
      hold.users = 1
    }
    await Promise.all(holds.map((hold) => this.release(hold)))
    const closing = this.#parking.close()
    const working = [...this.#entries.values()].filter((entry) => entry.working)
    await Promise.all(working.map((entry) => new Promise<void>((resolve) => (entry.onIdle = resolve))))
    await closing
  }

  #entry(key: Key): Entry {
    let entry = this.#entries.get(key.key)
    if (entry === undefined) {
      entry = {
        key,
        queue: [],
        hold: undefined,
        place: undefined,
        parked: false,
        waiting: undefined,
        standBack: undefined,
        working: false,
        onIdle: undefined,
      }
      this.#entries.set(key.key, entry)
    }
    return entry
  }

  /** Whether somebody of this process has the name, or is before us, in a way that excludes us; or others have it. */
  #isTakenHere(entry: Entry, ask: Ask): boolean {
    // With an empty queue it is a wait that has been given up and is about to end: nobody here needs to have the name.
    if (entry.parked && entry.queue.length > 0) return true
    if (ask.mode === 'exclusive') return entry.hold !== undefined || entry.queue.length > 0
    return entry.hold?.mode === 'exclusive' || entry.queue.some((request) => request.ask.mode === 'exclusive')
  }

  #enqueue(entry: Entry, ask: Ask, resolve: (hold: Hold | null) => void, reject: (error: unknown) => void): void {
    let timer: NodeJS.Timeout | undefined
    let forgetSignal = () => {}
    const leave = () => {
      clearTimeout(timer)
      forgetSignal()
      this.#options.waits.over(request)
      const place = entry.queue.indexOf(request)
      if (place >= 0) entry.queue.splice(place, 1)
      // Nobody needs what is waited for, or whoever is first now needs it in another mode.
      if (entry.waiting && entry.queue[0]?.ask.mode !== entry.waiting) entry.place?.cancel()
    }
    const request: Request = {
      kind: 'lock',
      key: entry.key,
      ask,
      askedAt: performance.now(),
      settle: (outcome) => {
        leave()
        if (outcome) outcome.users++
        resolve(outcome)
      },
      fail: (error) => {
        leave()
        reject(error)
      },
    }
    entry.queue.push(request)
    if (entry.parked) this.#tellWaits(entry)
    if (ask.waitMs > 0 && Number.isFinite(ask.waitMs)) timer = setTimeout(() => request.settle(null), ask.waitMs)
    if (ask.signal) forgetSignal = whenAborted(ask.signal, request.fail)
  }

  /** Brings the queue of one name forward, as far as it goes now. Runs once at a time for each name. */
  async #work(entry: Entry): Promise<void> {
    if (entry.working) return
    entry.working = true
    while (entry.queue.length > 0) {
      const head = entry.queue[0]!
      const { hold } = entry
      try {
        if (hold === undefined) await this.#ask(entry, head)
        // Its release will go on from here; unless it was released while we looked.
        else if (!(await this.#join(entry, hold, head)) && entry.hold === hold) {
          this.#tellWaits(entry)
          break
        }
      } catch (error) {
        await this.#failed(entry, head, error)
      }
    }
    // From the last look at the queue to here nothing else can run, so nobody who asks is overlooked.
    entry.working = false
    if (entry.hold === undefined) this.#rest(entry)
    entry.onIdle?.()
  }

  /** Nothing is held and nobody waits. */
  #rest(entry: Entry): void {
    if (entry.place) void this.#parking.give(entry.place)
    entry.place = undefined
    clearTimeout(entry.standBack)
    this.#entries.delete(entry.key.key)
  }

  /** Lets the head use what this process holds already; false when it must wait for its release. */
  async #join(entry: Entry, hold: Hold, head: Request): Promise<boolean> {
    if (head.ask.mode !== 'shared' || hold.mode !== 'shared') return false
    if (performance.now() > hold.joinableUntil) {
      if (entry.standBack || !(await this.#admitsReaders(entry.key))) {
        this.#busy(entry)
        this.#standBack(entry)
        return false
      }
      hold.joinableUntil = performance.now() + joinFreelyMs
    }
    // Both may have gone while we asked.
    if (entry.hold === hold && entry.queue[0] === head) head.settle(hold)
    return true
  }

  #standBack(entry: Entry): void {
    entry.standBack ??= setTimeout(() => {
      entry.standBack = undefined
      void this.#work(entry)
    }, joinFreelyMs / 4)
  }

  async #admitsReaders(key: Key): Promise<boolean> {
    const place = await this.#parking.take(0)
    if (!place) return true
    try {
      return await place.admitsReaders(key)
    } finally {
      void this.#parking.give(place)
    }
  }

  /** Asks the server on behalf of the head. */
  async #ask(entry: Entry, head: Request): Promise<void> {
    // On a place the name was busy a moment ago. Waiting straight away, right behind the release, spares a try that
    // would most likely fail, and with it a round trip for each hand-off between processes.
    if (entry.place && entry.queue.every(({ ask }) => ask.waitMs > 0)) return this.#park(entry)
    const turns = entry.place?.turns ?? this.#turns(await this.#livingSession(head))
    const fence = await turns.try(entry.key, head.ask.mode)
    if (fence !== null) return this.#granted(entry, head.ask.mode, fence, turns)
    this.#busy(entry)
    if (entry.queue.length > 0) await this.#park(entry)
  }

  async #livingSession(head: Request): Promise<Session> {
    const { anchor } = this.#options
    const session = anchor.session
    if (session) return session
    if (head.ask.waitMs === 0) throw reconnecting()
    return anchor.whenLiving(this.#closing.signal)
  }

  async #park(entry: Entry): Promise<void> {
    entry.parked = true
    this.#tellWaits(entry)
    await this.#waitOnPlace(entry).finally(() => {
      entry.parked = false
    })
  }

  /** Waits one slice on a parked place, or a moment where all places are taken. */
  async #waitOnPlace(entry: Entry): Promise<void> {
    entry.place ??= await this.#parking.take(backoffMs(3, 25, 250))
    const { place, queue } = entry
    const head = queue[0]
    if (!place || !head) return
    const { mode } = head.ask
    const patienceMs = Math.max(...queue.map(({ ask, askedAt }) => askedAt + ask.waitMs - performance.now()))
    entry.waiting = mode
    const fence = await place.wait(entry.key, mode, patienceMs).finally(() => {
      entry.waiting = undefined
    })
    if (fence !== undefined) await this.#granted(entry, mode, fence, place.turns)
  }

  /** The server has granted the name: to the head of the queue as it is now, if that still fits. */
  async #granted(entry: Entry, mode: Mode, fence: number, turns: Turns): Promise<void> {
    if (!turns.session.trusted) return
    const head = entry.queue[0]
    if (head === undefined || head.ask.mode !== mode) {
      await turns.release(entry.key, mode)
      return
    }
    entry.hold = new Hold(entry.key, mode, fence, turns)
    head.settle(entry.hold)
  }

  #tellWaits({ queue }: Entry): void {
    for (const request of queue) if (request.ask.waitMs > 0) this.#options.waits.began(request)
  }

  /** The name is taken elsewhere: those who would not wait are told so. */
  #busy(entry: Entry): void {
    for (const request of [...entry.queue]) if (request.ask.waitMs === 0) request.settle(null)
  }

  async #failed(entry: Entry, head: Request, error: unknown): Promise<void> {
    if (entry.place && !entry.place.turns.session.trusted) entry.place = undefined
    // The end of a wait that came late, and struck what came after it: asked again.
    if (sqlstateOf(error) === sqlstate.queryCanceled) return
    const waitsOn = head.ask.waitMs > 0 && error instanceof DatabaseUnreachableError
    if (!waitsOn) return head.fail(error)
    // The database went away: whoever waits goes on waiting, without pressing a server that is starting.
    await new Promise((resolve) => setTimeout(resolve, backoffMs(2, 25, 250)))
  }

  #turns(session: Session): Turns {
    let turns = this.#turnsOf.get(session)
    if (turns === undefined) {
      turns = new Turns(session, this.#options.statements, this.#options.names, this.#budget)
      this.#turnsOf.set(session, turns)
      if (session !== this.#options.anchor.session) session.onLoss((reason) => this.#lose(session, reason))
    }
    return turns
  }

  #lose(session: Session, reason: HoldfastError): void {
    for (const entry of [...this.#entries.values()]) {
      if (entry.place?.turns.session === session) entry.place = undefined
      if (entry.hold?.turns.session !== session) continue
      const { hold } = entry
      entry.hold = undefined
      hold.lose(reason)
      void this.#work(entry)
    }
  }
}

function reconnecting(): DatabaseUnreachableError {
  return new DatabaseUnreachableError('The anchor was lost and is reconnecting')
}
