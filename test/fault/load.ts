import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { until, type Witness } from '../setup/facts.js'
import { openDatabase, openInstance } from './fixture.js'

const size = 3

/** Fleet that repeats all kinds of operations until the test ends. It counts the operations and measures their durations. */
export class Load {
  /** Errors of operations, and reasons of lost instances. */
  readonly errors: unknown[] = []
  /** Number of completed operations of each kind. */
  readonly done = new Map<string, number>()
  #slowest = new Map<string, number>()
  readonly #ran = new Set<number>()
  readonly #enqueued: number[] = []
  #isOver = false
  #loops: Promise<unknown>[] = []

  private constructor(
    readonly url: string,
    readonly witness: Witness,
  ) {}

  static async start(): Promise<Load> {
    const { url, witness } = await openDatabase()
    const load = new Load(url, witness)
    for (let at = 0; at < size; at++) await load.addInstance()
    onTestFinished(() => load.end())
    await load.continues()
    return load
  }

  /** Returns the longest duration of each kind of operation since the last call, in ms. */
  takeSlowest(): Record<string, number> {
    const slowest = [...this.#slowest].sort(([, one], [, other]) => other - one)
    this.#slowest = new Map()
    return Object.fromEntries(slowest.map(([what, ms]) => [what, Math.round(ms)]))
  }

  /** Adds an instance with the default expiry, because the tests measure how long other sessions delay operations. */
  async addInstance(): Promise<void> {
    this.#startOperations(await openInstance(this.url, { expiry: 10_000 }))
  }

  /** Returns the longest duration of an operation while nothing disturbs the fleet, in ms. */
  async slowestUndisturbed(): Promise<number> {
    this.takeSlowest()
    await this.continues()
    return Math.max(...Object.values(this.takeSlowest()))
  }

  /** Waits until all kinds of operations have been completed again, and expects no error. */
  async continues(): Promise<void> {
    const before = new Map(this.done)
    const isDone = (what: string) => this.errors.length > 0 || this.#count(what) > (before.get(what) ?? 0) + size
    for (const what of operations) await until(`${what} continue`, () => isDone(what), 20_000)
    expect(this.errors).toEqual([])
  }

  /** Stops the operations, and waits until every enqueued job has run. */
  async finishes(): Promise<void> {
    await this.#stop()
    await until('all jobs have run', () => this.#enqueued.every((id) => this.#ran.has(id)), 30_000)
    expect(this.errors).toEqual([])
  }

  async end(): Promise<void> {
    await this.#stop()
  }

  async #stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#loops)
  }

  #startOperations(holdfast: Holdfast): void {
    holdfast.on('instance.lost', ({ reason }) => this.errors.push(reason))
    const job = defineJob('job', {
      run: (_: null, { id }) => {
        this.#ran.add(id)
        this.#record('jobs')
      },
    })
    const inLane = defineJob('in a lane', { run: job.run })
    holdfast.jobs.work([job, inLane])
    holdfast.schedules.add('every second', { every: '1s' }, () => this.#record('ticks'))
    holdfast.elections.campaign('leader', () => {
      this.#record('terms')
    })
    const repeated = {
      locks: () => holdfast.locks.with(someName(), () => {}),
      leases: () => holdfast.leases.with(someName(), () => {}),
      permits: () => holdfast.limits.with(someName(), { max: 1, wait: '20s' }, () => {}),
      rates: () => holdfast.limits.consume(someName(), { rate: '1000/s' }),
      deliveries: () => holdfast.once.run(someName(), { retain: '1s', wait: '20s' }, () => 1),
      rounds: () =>
        holdfast.shares.each(`cities of ${holdfast.id}`, ['london', 'paris'], { round: someName() }, () => {}),
      enqueued: async () => {
        const options = Math.random() < 0.5 ? { lane: someName() } : { unique: someName() }
        const { id } = await holdfast.jobs.enqueue('lane' in options ? inLane : job, null, options)
        this.#enqueued.push(id)
      },
    }
    for (const [what, use] of Object.entries(repeated)) this.#loops.push(this.#repeat(what, use))
  }

  async #repeat(what: string, use: () => Promise<unknown>): Promise<void> {
    while (!this.#isOver) {
      const startedAt = performance.now()
      try {
        await use()
        this.#record(what)
      } catch (error) {
        this.errors.push(error)
      }
      const ms = performance.now() - startedAt
      this.#slowest.set(what, Math.max(ms, this.#slowest.get(what) ?? 0))
      // Gives the other loops and the server time.
      await sleep(10)
    }
  }

  #record(what: string): void {
    this.done.set(what, this.#count(what) + 1)
  }

  #count(what: string): number {
    return this.done.get(what) ?? 0
  }
}

const operations = ['locks', 'leases', 'permits', 'rates', 'deliveries', 'rounds', 'enqueued', 'jobs', 'ticks']
const someName = () => `name ${Math.floor(Math.random() * 200)}`
