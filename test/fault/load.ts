import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { until, type Witness } from '../setup/facts.js'
import { openDatabase, openInstance } from './fixture.js'

const size = 3

/** A fleet that uses everything, one thing after the other, for as long as the test lasts. It keeps count, and time. */
export class Load {
  /** What was refused, and instances that were lost. */
  readonly troubles: unknown[] = []
  /** How often each thing was done. */
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

  static async begin(): Promise<Load> {
    const { url, witness } = await openDatabase()
    const load = new Load(url, witness)
    for (let at = 0; at < size; at++) await load.joins()
    onTestFinished(() => load.end())
    await load.goesOn()
    return load
  }

  /** How long the slowest of each thing took since the last time that this was asked, in ms. */
  takeSlowest(): Record<string, number> {
    const slowest = [...this.#slowest].sort(([, one], [, other]) => other - one)
    this.#slowest = new Map()
    return Object.fromEntries(slowest.map(([what, ms]) => [what, Math.round(ms)]))
  }

  /** One more instance, with an expiry as in production: what is looked at here is how long others hold them up. */
  async joins(): Promise<void> {
    this.#uses(await openInstance(this.url, { expiry: 10_000 }))
  }

  /** How long the slowest thing takes on this machine while nobody disturbs, in ms. */
  async calm(): Promise<number> {
    this.takeSlowest()
    await this.goesOn()
    return Math.max(...Object.values(this.takeSlowest()))
  }

  /** Everything is done again from now on, without trouble. */
  async goesOn(): Promise<void> {
    const before = new Map(this.done)
    const isDone = (what: string) => this.troubles.length > 0 || this.#count(what) > (before.get(what) ?? 0) + size
    for (const what of everything) await until(`${what} go on`, () => isDone(what), 20_000)
    expect(this.troubles).toEqual([])
  }

  /** Each job that was enqueued has run. */
  async endsWell(): Promise<void> {
    await this.#stop()
    await until('all jobs have run', () => this.#enqueued.every((id) => this.#ran.has(id)), 30_000)
    expect(this.troubles).toEqual([])
  }

  async end(): Promise<void> {
    await this.#stop()
  }

  async #stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#loops)
  }

  #uses(holdfast: Holdfast): void {
    holdfast.on('instance.lost', ({ reason }) => this.troubles.push(reason))
    const job = defineJob('job', {
      run: (_: null, { id }) => {
        this.#ran.add(id)
        this.#did('jobs')
      },
    })
    const inLane = defineJob('in a lane', { run: job.run })
    holdfast.jobs.work([job, inLane])
    holdfast.schedules.add('every second', { every: '1s' }, () => this.#did('ticks'))
    holdfast.elections.campaign('leader', () => {
      this.#did('terms')
    })
    const uses = {
      locks: () => holdfast.locks.with(someName(), () => {}),
      leases: () => holdfast.leases.with(someName(), () => {}),
      permits: () => holdfast.limits.with(someName(), { max: 1, wait: '20s' }, () => {}),
      rates: () => holdfast.limits.consume(someName(), { rate: '1000/s' }),
      deliveries: () => holdfast.once.run(someName(), () => 1, { retain: '1s', wait: '20s' }),
      rounds: () =>
        holdfast.shares.each(`cities of ${holdfast.id}`, ['london', 'paris'], () => {}, { round: someName() }),
      enqueued: async () => {
        const options = Math.random() < 0.5 ? { lane: someName() } : { unique: someName() }
        const { id } = await holdfast.jobs.enqueue('lane' in options ? inLane : job, null, options)
        this.#enqueued.push(id)
      },
    }
    for (const [what, use] of Object.entries(uses)) this.#loops.push(this.#again(what, use))
  }

  async #again(what: string, use: () => Promise<unknown>): Promise<void> {
    while (!this.#isOver) {
      const beganAt = performance.now()
      try {
        await use()
        this.#did(what)
      } catch (error) {
        this.troubles.push(error)
      }
      const ms = performance.now() - beganAt
      this.#slowest.set(what, Math.max(ms, this.#slowest.get(what) ?? 0))
      // The other loops and the server have a turn.
      await sleep(10)
    }
  }

  #did(what: string): void {
    this.done.set(what, this.#count(what) + 1)
  }

  #count(what: string): number {
    return this.done.get(what) ?? 0
  }
}

const everything = ['locks', 'leases', 'permits', 'rates', 'deliveries', 'rounds', 'enqueued', 'jobs', 'ticks']
const someName = () => `name ${Math.floor(Math.random() * 200)}`
