import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Child } from '../fault/children.js'
import { type Direction, SilentProxy } from '../fault/silent-proxy.js'

const program = new URL('./actor.ts', import.meta.url)

/** Options of a fleet, and the room of its operations. */
export interface Opening {
  readonly room: 'locks' | 'leases' | 'either' | 'limits' | 'elections' | 'once' | 'shares'
  readonly expiryMs: number
  readonly anchor: 'required' | 'none'
}

const hourMs = 3_600_000
/** Errors of the actors' clocks. */
const wrongClocks = [0, hourMs, -hourMs]

/** One process of the fleet. It connects to the database through its own proxy. */
export class Actor {
  isFrozen = false
  /** Whether notifications may not reach the process, because it was frozen or its network was silent in this schedule. */
  isCutOff = false

  private constructor(
    readonly child: Child<string>,
    readonly proxy: SilentProxy,
    readonly history: string,
    readonly instanceId: string,
  ) {}

  static async start(url: string, opening: Opening, history: string, clockMs: number): Promise<Actor> {
    const proxy = await SilentProxy.before(url)
    onTestFinished(() => proxy.close())
    const child = new Child<string>(program, { url: proxy.through(url), ...opening, history, clockMs })
    const message = await child.first('it is open')
    return new Actor(child, proxy, history, message.slice('open '.length))
  }

  get isAlive(): boolean {
    return this.child.isAlive
  }

  order(order: 'walk' | 'finish', details: object = {}): void {
    this.child.send({ order, ...details })
  }

  async finish(): Promise<void> {
    const before = this.child.messages.length
    this.order('finish')
    await this.child.waitFor('it has finished its steps', () => this.child.messages.length > before, 60_000)
  }

  freeze(): void {
    this.isCutOff = true
    this.isFrozen = this.child.process.kill('SIGSTOP')
  }

  silence(directions: readonly Direction[]): void {
    this.isCutOff = true
    this.proxy.silence(...directions)
  }

  thaw(): void {
    if (this.isFrozen) this.child.process.kill('SIGCONT')
    this.isFrozen = false
  }

  async kill(): Promise<void> {
    this.child.kill()
    await this.child.ended()
    await this.proxy.close()
  }

  /** Closes the instance. Then the process must exit without a kill. */
  async close(): Promise<void> {
    await this.child.close({ order: 'close' })
    await this.proxy.close()
  }
}

/** Several actors on one database. */
export class Fleet {
  readonly actors: Actor[] = []
  readonly histories: string[] = []
  readonly #directory = mkdtempSync(join(tmpdir(), 'holdfast-fleet-'))

  constructor(
    readonly url: string,
    readonly size: number,
    readonly opening: Opening,
  ) {}

  /** Starts actors in place of those that were killed. */
  async fill(): Promise<void> {
    this.actors.splice(0, Infinity, ...this.actors.filter((actor) => actor.isAlive))
    const missing = Array.from({ length: this.size - this.actors.length }, () => this.#start())
    this.actors.push(...(await Promise.all(missing)))
  }

  async close(): Promise<void> {
    await Promise.all(this.actors.splice(0).map((actor) => actor.close()))
  }

  /** Kills all actors, in any state. */
  async destroy(): Promise<void> {
    await Promise.all(this.actors.splice(0).map((actor) => actor.kill()))
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #start(): Promise<Actor> {
    const number = this.histories.length
    const history = join(this.#directory, `${number}.jsonl`)
    this.histories.push(history)
    return Actor.start(this.url, this.opening, history, wrongClocks[number % wrongClocks.length]!)
  }
}
