import type pg from 'pg'
import { pause, whenAborted } from '../base/index.js'
import { cityNames } from './company/index.js'
import type { Fleet } from './fleet.js'
import { Random } from './random.js'

const responseTimeoutMs = 3_000
const customers = 6
const domains = ['example.com', 'example.org', 'example.net']

/** Creates orders, documents and buildings, and sends the customers' and the payment provider's requests. */
export class LoadGenerator {
  readonly #pool: pg.Pool
  readonly #fleet: Fleet
  readonly #random: Random
  readonly #stopped = new AbortController()
  readonly #running = new Set<Promise<void>>()
  #payments = 0

  constructor(pool: pg.Pool, fleet: Fleet, seed: number) {
    this.#pool = pool
    this.#fleet = fleet
    this.#random = new Random(seed)
  }

  /** Starts the load of the departments that both companies have, or of all departments. */
  start(departments: 'all' | 'common'): void {
    this.#repeat(1_000, () => this.#write('insert into "order" select from generate_series(1, $1)'))
    this.#repeat(700, async () => {
      await this.#post('/customers', { domain: this.#random.pick(domains) })
    })
    this.#repeat(500, async () => {
      const event = `evt_${++this.#payments}`
      await Promise.all([this.#deliverPayment(event), this.#deliverPayment(event)])
    })
    if (departments === 'common') return
    this.#repeat(300, () => this.#write('insert into document select from generate_series(1, $1)'))
    this.#repeat(250, () =>
      this.#write(`insert into building (city) select '${this.#random.pick(cityNames)}' from generate_series(1, $1)`),
    )
    this.#repeat(300, () => this.#requestExport(1 + Math.floor(this.#random.fraction() * customers)))
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await Promise.all(this.#running)
  }

  /**
   * Repeats an event's delivery until the response has status 201. With status 202, another delivery is still running.
   */
  async #deliverPayment(event: string): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const status = await this.#post('/payments', {}, { 'x-event-id': event })
      if (status === 201) {
        await this.#pool.query('insert into acknowledged values ($1)', [event])
        return
      }
      await pause(1_000, this.#stopped.signal)
    }
  }

  /** Requests an export, and retries if there is no response. */
  async #requestExport(customer: number): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const status = await this.#post('/exports', { customer })
      if (status === 409 || status === 201) return
      await pause(1_000, this.#stopped.signal)
    }
  }

  /** Returns the response's status, or undefined if there was no response. */
  async #post(path: string, body: object, headers: Record<string, string> = {}): Promise<number | undefined> {
    const member = this.#random.pick(this.#fleet.reachable)
    if (!member) return undefined
    const timeout = new AbortController()
    const forget = whenAborted(this.#stopped.signal, () => timeout.abort())
    const timer = setTimeout(() => timeout.abort(), responseTimeoutMs)
    try {
      const address = `http://127.0.0.1:${member.port}${path}`
      const { signal } = timeout
      const response = await fetch(address, { method: 'POST', body: JSON.stringify(body), headers, signal })
      await response.arrayBuffer()
      return response.status
    } catch {
      return undefined // The instance was killed or is frozen.
    } finally {
      clearTimeout(timer)
      forget()
    }
  }

  async #write(text: string): Promise<void> {
    await this.#pool.query(text, [1 + Math.floor(this.#random.fraction() * 3)])
  }

  #repeat(everyMs: number, act: () => Promise<void>): void {
    const running = async () => {
      while (!this.#stopped.signal.aborted) {
        await pause(this.#random.between(0.5, 1.5) * everyMs, this.#stopped.signal)
        if (!this.#stopped.signal.aborted) this.#track(act())
      }
    }
    this.#track(running())
  }

  #track(work: Promise<void>): void {
    const tracked = work.catch(() => {}).finally(() => this.#running.delete(tracked))
    this.#running.add(tracked)
  }
}
