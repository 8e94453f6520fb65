import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Direction, SilentProxy } from '../fault/silent-proxy.js'
import { within } from '../setup/facts.js'

const program = fileURLToPath(new URL('./actor.mjs', import.meta.url))

/** How a fleet is opened, and through which room it walks. */
export interface Opening {
  readonly room: 'locks' | 'leases' | 'either' | 'limits' | 'elections' | 'once' | 'shares'
  readonly expiryMs: number
  readonly anchor: 'required' | 'none'
}

const hourMs = 3_600_000
/** By how much the clocks of the actors are wrong, one after the other. */
const wrongClocks = [0, hourMs, -hourMs]

/** One process of the fleet, from outside. It speaks to the database through a proxy of its own. */
export class Actor {
  isFrozen = false
  /** Whether news may not reach it: it was frozen, or its network silent, in this schedule. */
  isCutOff = false

  private constructor(
    readonly child: ChildProcess,
    readonly proxy: SilentProxy,
    readonly history: string,
    readonly instanceId: string,
  ) {}

  static async start(url: string, opening: Opening, history: string, clockMs: number): Promise<Actor> {
    const proxy = await SilentProxy.before(url)
    const child = fork(program, [JSON.stringify({ url: proxy.through(url), ...opening, history, clockMs })], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    const [message] = await within(60_000, 'Opening', Promise.race([once(child, 'message'), once(child, 'exit')]))
    if (typeof message !== 'string') throw new Error(`An actor ended while it opened (${message})`)
    return new Actor(child, proxy, history, message.slice('open '.length))
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  order(order: 'walk' | 'rest' | 'close', details: object = {}): void {
    this.child.send({ order, ...details })
  }

  async rest(): Promise<void> {
    const rested = once(this.child, 'message')
    this.order('rest')
    await within(60_000, 'Coming to rest', rested)
  }

  freeze(): void {
    this.isCutOff = true
    this.isFrozen = this.child.kill('SIGSTOP')
  }

  silence(directions: readonly Direction[]): void {
    this.isCutOff = true
    this.proxy.silence(...directions)
  }

  thaw(): void {
    if (this.isFrozen) this.child.kill('SIGCONT')
    this.isFrozen = false
  }

  async kill(): Promise<void> {
    const exited = this.isAlive ? once(this.child, 'exit') : undefined
    this.child.kill('SIGKILL')
    await exited
    await this.proxy.close()
  }

  /** Closes in good order; the process must then end by itself. */
  async close(): Promise<void> {
    const exited = once(this.child, 'exit')
    this.order('close')
    const [code] = await within(40_000, `Ending by itself (${this.history})`, exited)
    await this.proxy.close()
    if (code !== 0) throw new Error(`An actor ended with status ${code}`)
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

  /** Brings the fleet back to its size after some were killed. */
  async fill(): Promise<void> {
    this.actors.splice(0, Infinity, ...this.actors.filter((actor) => actor.isAlive))
    const missing = Array.from({ length: this.size - this.actors.length }, () => this.#start())
    this.actors.push(...(await Promise.all(missing)))
  }

  async close(): Promise<void> {
    await Promise.all(this.actors.splice(0).map((actor) => actor.close()))
  }

  /** Whatever state they are in. */
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
