// The instances from outside: each has a place, a network of its own, and is replaced when it was killed.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Network } from './network.ts'

const program = fileURLToPath(new URL('./instance.ts', import.meta.url))

/** Settles like the promise, but fails when that takes too long. */
export async function within<Result>(ms: number, what: string, promise: Promise<Result>) {
  const late = new AbortController()
  try {
    return await Promise.race([
      promise,
      sleep(ms, undefined, { signal: late.signal }).then(() =>
        Promise.reject(new Error(`${what} took more than ${ms} ms`)),
      ),
    ])
  } finally {
    late.abort()
  }
}

/** What an instance is given. `history` is the folder, and then its file in it. */
export interface Asked {
  url: string
  expiryMs: number
  number: number
  history: string
  driver: 'pg' | 'postgres.js'
  anchor: 'required' | 'none'
  clockMs: number
  seed: number
  only: string[] | undefined
}

/** One place in the fleet. */
export class Place {
  /** The process that is there, if any, and its instance, when it is open. */
  child: ChildProcess | undefined
  instanceId: string | undefined
  network!: Network
  /** Until when news may not reach it, by performance.now(). */
  deafUntil = 0
  /** How many processes were here. */
  count = 0
  onDeath = (_says: string) => {}
  #isClosing = false
  #asked!: Asked
  #isFrozen = false

  static async make(asked: Asked) {
    const place = new Place()
    place.#asked = asked
    place.network = await Network.before(asked.url)
    return place
  }

  get pid() {
    return this.child?.pid
  }

  async start() {
    const { number, history, seed, url, ...rest } = this.#asked
    const generation = this.count++
    const details = {
      ...rest,
      url: this.network.through(url),
      seed: seed + 1_000 * number + 10_000 * generation,
      history: join(history, `instance-${number}-${generation}.jsonl`),
    }
    const child = fork(program, [JSON.stringify(details)])
    this.child = child
    child.on('error', () => {})
    child.on('exit', (code, signal) => {
      if (this.child === child) this.child = undefined
      // Nothing that is done to it may be its end, but a kill.
      if (signal !== 'SIGKILL' && !this.#isClosing)
        this.onDeath(`process ${child.pid} ended by itself with ${code ?? signal}`)
    })
    this.instanceId = undefined
    const begun = Promise.race([once(child, 'message'), once(child, 'exit')])
    const [message] = await within(60_000, `The opening of process ${child.pid}`, begun)
    if (typeof message === 'string') this.instanceId = message.slice('open '.length)
  }

  order(order: string, details = {}) {
    if (this.child?.connected) this.child.send({ order, ...details }, () => {})
  }

  /** News do not reach it for so long, and it may take as long again as its expiry until it knows. */
  deafen(ms: number) {
    this.deafUntil = Math.max(this.deafUntil, performance.now() + ms + this.#asked.expiryMs)
  }

  get isDeaf() {
    return performance.now() < this.deafUntil
  }

  freeze() {
    this.#isFrozen = this.child?.kill('SIGSTOP') ?? false
  }

  thaw() {
    if (this.#isFrozen) this.child?.kill('SIGCONT')
    this.#isFrozen = false
  }

  async kill() {
    const { child } = this
    if (!child) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  async rest(patienceMs: number) {
    const child = this.#living()
    const rested = once(child, 'message')
    this.order('rest', { tellAfterMs: 0.8 * patienceMs })
    await within(patienceMs, `The rest of process ${child.pid}`, Promise.race([rested, once(child, 'exit')]))
  }

  /** One that has ended by itself is a violation already, and must not end the judge as well. */
  #living(): ChildProcess {
    if (this.child) return this.child
    throw new Error('A process had ended before it was told to')
  }

  /** Closes in good order; the process must then end by itself. */
  async close() {
    const child = this.#living()
    const exited = once(child, 'exit')
    this.#isClosing = true
    this.order('close')
    const [code] = await within(40_000, `The end of process ${child.pid} by itself`, exited)
    if (code !== 0) throw new Error(`A process ended with status ${code}`)
  }
}
