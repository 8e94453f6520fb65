import { type Events, type Key, Poller } from '../base/index.js'
import {
  type Anchor,
  answerWithinMs,
  type Database,
  DatabaseUnreachableError,
  loadStatements,
  type Presence,
  type Waits,
} from '../postgres/index.js'
import { type Why, whyGivenBack, whyLost } from './ending.js'
import { type Grant, type Minute, Tally, type Term } from './tally.js'

interface SamplesOptions {
  readonly events: Events
  readonly waits: Waits
  readonly presence: Presence
  readonly anchor: Anchor | undefined
  /** Used for sweeping, and where there is no anchor. */
  readonly lifeline: Database
  readonly schema: string
  readonly isClosing: () => boolean
}

const minPauseMs = 1_000
/** Instances write at different moments after the end of a minute. */
const spreadMs = 50_000
/** Of so many writings one sweeps, so that it is done also where no process lives for long. */
const sweepOneOf = 60
const keepDays = 14
const keepTerms = 50_000
const keepOfName = 500

/** A statement that took longer may have told moments that are too late, by as much; so it is sent again, so many times. */
const quickMs = 250
const mostTries = 3

const leads = (label: string) => label.startsWith('election/')

/**
 * What this instance holds and waits for, counted in memory and written down once a minute, in one statement; nothing when there
 * is nothing. See the README of this room.
 */
export class Samples {
  readonly #options: SamplesOptions
  readonly #sql
  readonly #tally = new Tally()
  readonly #offsetMs = Math.random() * spreadMs
  /** What a leader was told before it gave the leadership back, by the number of its term. */
  readonly #resigned = new Map<number, Why>()
  readonly #poller = new Poller({
    isNeeded: () => !this.#tally.isEmpty,
    poll: () => this.#write(false),
    pauseMs: () => Math.max(this.#tally.endsAt + this.#offsetMs - performance.now(), minPauseMs),
    pausesFirst: true,
  })
  #writing: Promise<void> = Promise.resolve()

  /** @internal */
  constructor(options: SamplesOptions) {
    this.#options = options
    this.#sql = loadStatements<'write' | 'sweep'>(new URL('./samples.sql', import.meta.url), options.schema)
    const { events, waits, isClosing } = options
    events.on('lock.acquired', ({ keys, names, mode, fence }) => {
      for (const key of keys) this.#began({ key, fence, kind: 'lock', mode, leads: leads(names[0]!) })
    })
    events.on('lock.released', ({ keys, fence, reason }) => {
      const why = this.#whyResigned(fence) ?? whyGivenBack(reason, isClosing())
      for (const key of keys) this.#ended(key, fence, why)
    })
    events.on('lock.lost', ({ keys, fence, reason }) => {
      this.#resigned.delete(fence)
      for (const key of keys) this.#ended(key, fence, whyLost(reason, 'lock'))
    })
    events.on('lease.acquired', ({ key, name, fence }) => {
      this.#began({ key, fence, kind: 'lease', mode: 'exclusive', leads: leads(name) })
    })
    events.on('lease.released', ({ key, fence, reason }) => {
      this.#ended(key, fence, this.#whyResigned(fence) ?? whyGivenBack(reason, isClosing()))
    })
    events.on('lease.lost', ({ key, fence, reason }) => {
      this.#resigned.delete(fence)
      this.#ended(key, fence, whyLost(reason, 'lease'))
    })
    events.on('election.resigned', ({ term, reason }) => this.#resigned.set(term, whyGivenBack(reason, isClosing())))
    waits.onWait((key, by) => this.#waits(key, by))
  }

  /** @internal Writes what there is, now, also of the minute that is not over. */
  write(): Promise<void> {
    return this.#write(true)
  }

  /** @internal Writes down what nobody else tells, and removes what is old. */
  async sweep(): Promise<void> {
    // Not on the anchor: it would not see that this instance is present.
    await this.#options.lifeline.query(this.#sql.sweep.text, [keepDays, keepTerms, keepOfName], answerWithinMs)
  }

  /** @internal When nothing is held any more, and before the presence ends. */
  async close(): Promise<void> {
    void this.#poller.close()
    await this.#write(true)
  }

  #began(grant: Grant): void {
    this.#tally.began(grant, performance.now())
    this.#poller.start()
  }

  #ended(key: string, fence: number, why: Why): void {
    this.#tally.ended(key, fence, why, performance.now())
  }

  #waits({ key, label }: Key, by: 1 | -1): void {
    // To stand for an election is no wait: nothing is held up by it.
    if (leads(label)) return
    this.#tally.waits(key, by, performance.now())
    this.#poller.start()
  }

  #whyResigned(term: number): Why | undefined {
    if (this.#resigned.size === 0) return undefined
    const why = this.#resigned.get(term)
    this.#resigned.delete(term)
    return why
  }

  /** One at a time. The database being away costs the minute, and no more. */
  #write(isLast: boolean): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const now = performance.now()
      const minutes = this.#tally.takeMinutes(now, isLast)
      const terms = this.#tally.takeTerms(now)
      const empty: Minute = { beganAt: now, endedAt: now, names: [] }
      // Nearly always there is one.
      for (const minute of minutes.length > 0 ? minutes : [empty]) {
        const told = minute === minutes.at(-1) || minutes.length === 0 ? terms : []
        if (minute.names.length + told.length > 0) await this.#tell(minute, told)
      }
    })
    return this.#writing
  }

  async #tell(minute: Minute, terms: readonly Term[]): Promise<void> {
    try {
      let tookMs = await this.#send(minute, terms)
      for (let tries = 1; tookMs > quickMs && terms.length > 0 && tries < mostTries; tries++) {
        tookMs = await this.#send({ ...minute, names: [] }, terms)
      }
      if (Math.random() * sweepOneOf < 1) await this.sweep()
    } catch {
      this.#tally.takeBack(terms)
    }
  }

  /** Answers with how long it took. */
  async #send({ beganAt, endedAt, names }: Minute, terms: readonly Term[]): Promise<number> {
    const sentAt = performance.now()
    const age = (at: number | undefined) => at && sentAt - at
    const nowMs = await this.#run([
      this.#options.presence.instanceId,
      names.map(({ key }) => key),
      names.map(({ held }) => held),
      names.map(({ waited }) => waited),
      // Its middle, so that it is in the right minute however long the statement travels.
      sentAt - (beganAt + endedAt) / 2,
      JSON.stringify(
        terms.map(({ key, fence, kind, mode, beganAt, endedAt, why }) => ({
          key,
          fence,
          kind,
          mode,
          began: age(beganAt),
          ended: age(endedAt),
          why,
        })),
      ),
    ])
    const answeredAt = performance.now()
    this.#tally.setClock(nowMs, answeredAt)
    return answeredAt - sentAt
  }

  async #run(values: unknown[]): Promise<number> {
    const { anchor, lifeline } = this.#options
    if (anchor) {
      if (!anchor.session) throw new DatabaseUnreachableError('This instance is reconnecting')
      const [row] = await anchor.session.run(this.#sql.write, values)
      return Number(row![0])
    }
    const [row] = await lifeline.query<{ now_ms: number }>(this.#sql.write.text, values, answerWithinMs)
    return row!.now_ms
  }
}
