import { type Events, type Key, Poller } from '../base/index.js'
import {
  type Anchor,
  type Database,
  DatabaseUnreachableError,
  loadStatements,
  type Presence,
  responseTimeoutMs,
  type WaitTracker,
} from '../postgres/index.js'
import { type EndReason, reasonForLoss, reasonForRelease } from './end-reason.js'
import { type Grant, type Minute, Tally, type Term } from './tally.js'

interface SamplesOptions {
  readonly events: Events
  readonly waits: WaitTracker
  readonly presence: Presence
  readonly anchor: Anchor | undefined
  /** Connection pool for sweeps, and for all statements if there is no anchor. */
  readonly keepaliveDatabase: Database
  readonly schema: string
  readonly isClosing: () => boolean
}

const minPauseMs = 1_000
/** Spreads the instances' writes over the minute. */
const spreadMs = 50_000
/** Average number of writes between sweeps. The actual number is random, so that short-lived processes also sweep. */
const writesPerSweep = 60
const retainDays = 14
const keepTerms = 50_000
const keepOfName = 500

/**
 * Maximum duration of a normal write. A slower write may have recorded times that are too late, so it is repeated, up
 * to `maxTries` times in total.
 */
const quickMs = 250
const maxTries = 3

const isLeadership = (label: string) => label.startsWith('election/')

/**
 * Counts in memory how long this instance holds names and waits for them. Writes the counts once a minute. See
 * README.md.
 */
export class Samples {
  readonly #options: SamplesOptions
  readonly #sql
  readonly #tally = new Tally()
  readonly #offsetMs = Math.random() * spreadMs
  /** Reasons why leaders resigned, by term number. */
  readonly #resignReasons = new Map<number, EndReason>()
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
      for (const key of keys)
        this.#termStarted({ key, fence, kind: 'lock', mode, isLeadership: isLeadership(names[0]!) })
    })
    events.on('lock.released', ({ keys, fence, reason }) => {
      const why = this.#resignReason(fence) ?? reasonForRelease(reason, isClosing())
      for (const key of keys) this.#termEnded(key, fence, why)
    })
    events.on('lock.lost', ({ keys, fence, reason }) => {
      this.#resignReasons.delete(fence)
      for (const key of keys) this.#termEnded(key, fence, reasonForLoss(reason, 'lock'))
    })
    events.on('lease.acquired', ({ key, name, fence }) => {
      this.#termStarted({ key, fence, kind: 'lease', mode: 'exclusive', isLeadership: isLeadership(name) })
    })
    events.on('lease.released', ({ key, fence, reason }) => {
      this.#termEnded(key, fence, this.#resignReason(fence) ?? reasonForRelease(reason, isClosing()))
    })
    events.on('lease.lost', ({ key, fence, reason }) => {
      this.#resignReasons.delete(fence)
      this.#termEnded(key, fence, reasonForLoss(reason, 'lease'))
    })
    events.on('election.resigned', ({ term, reason }) =>
      this.#resignReasons.set(term, reasonForRelease(reason, isClosing())),
    )
    waits.onWait((key, by) => this.#waitersChanged(key, by))
  }

  /** @internal Writes all counts now, including the current minute. */
  write(): Promise<void> {
    return this.#write(true)
  }

  /** @internal Records the ends of terms whose instance is gone, and removes old rows. */
  async sweep(): Promise<void> {
    // The sweep does not run on the anchor connection, because the anchor's own session does not see this instance as
    // present.
    const values = [retainDays, keepTerms, keepOfName]
    await this.#options.keepaliveDatabase.query(this.#sql.sweep.text, values, responseTimeoutMs)
  }

  /** @internal Called after all names are released, and before the presence ends. */
  async close(): Promise<void> {
    void this.#poller.close()
    await this.#write(true)
  }

  #termStarted(grant: Grant): void {
    this.#tally.termStarted(grant, performance.now())
    this.#poller.start()
  }

  #termEnded(key: string, fence: number, why: EndReason): void {
    this.#tally.termEnded(key, fence, why, performance.now())
  }

  #waitersChanged({ key, label }: Key, by: 1 | -1): void {
    // A campaign does not count as a wait, because it does not delay any work.
    if (isLeadership(label)) return
    this.#tally.waitersChanged(key, by, performance.now())
    this.#poller.start()
  }

  #resignReason(term: number): EndReason | undefined {
    if (this.#resignReasons.size === 0) return undefined
    const why = this.#resignReasons.get(term)
    this.#resignReasons.delete(term)
    return why
  }

  /**
   * Writes the data for one minute at a time. If the database is unreachable, only that minute's samples are lost.
   */
  #write(isLast: boolean): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const now = performance.now()
      const minutes = this.#tally.removeMinutes(now, isLast)
      const terms = this.#tally.termsToRecord(now)
      const empty: Minute = { beganAt: now, endedAt: now, names: [] }
      for (const minute of minutes.length > 0 ? minutes : [empty]) {
        const termsToSend = minute === minutes.at(-1) || minutes.length === 0 ? terms : []
        if (minute.names.length + termsToSend.length > 0) await this.#record(minute, termsToSend)
      }
    })
    return this.#writing
  }

  async #record(minute: Minute, terms: readonly Term[]): Promise<void> {
    try {
      let tookMs = await this.#send(minute, terms)
      for (let tries = 1; tookMs > quickMs && terms.length > 0 && tries < maxTries; tries++) {
        tookMs = await this.#send({ ...minute, names: [] }, terms)
      }
      if (Math.random() * writesPerSweep < 1) await this.sweep()
    } catch {
      this.#tally.markUnrecorded(terms)
    }
  }

  /** Returns the statement's duration. */
  async #send({ beganAt, endedAt, names }: Minute, terms: readonly Term[]): Promise<number> {
    const sentAt = performance.now()
    const age = (at: number | undefined) => at && sentAt - at
    const nowMs = await this.#run([
      this.#options.presence.instanceId,
      names.map(({ key }) => key),
      names.map(({ held }) => held),
      names.map(({ waited }) => waited),
      // Uses the middle of the minute, so that a delayed statement still updates the correct minute.
      sentAt - (beganAt + endedAt) / 2,
      JSON.stringify(
        terms.map(({ beganAt, endedAt, ...term }) => ({ ...term, began: age(beganAt), ended: age(endedAt) })),
      ),
      this.#options.presence.name,
    ])
    const answeredAt = performance.now()
    this.#tally.setClock(nowMs, answeredAt)
    return answeredAt - sentAt
  }

  async #run(values: unknown[]): Promise<number> {
    const { anchor, keepaliveDatabase } = this.#options
    if (anchor) {
      if (!anchor.session) throw new DatabaseUnreachableError('This instance is reconnecting')
      const [row] = await anchor.session.run(this.#sql.write, values)
      return Number(row![0])
    }
    const [row] = await keepaliveDatabase.query<{ now_ms: number }>(this.#sql.write.text, values, responseTimeoutMs)
    return row!.now_ms
  }
}
