// The fleet, as the nemesis controls it. Each member has its own simulated network. A killed process is replaced.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Network } from './network.ts'

/** Maximum time to open one instance. */
const openWithinMs = 60_000
/** Additional time for each further instance in the same process. */
const openMoreWithinMs = 6_000

const program = fileURLToPath(new URL('./instance.ts', import.meta.url))

/** Settles like the promise, or rejects after `ms`. */
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

/** An instance's options. `history` is the folder for the histories or, for the process, its own file. */
export interface InstanceOptions {
  url: string
  /** Number of instances in the process. */
  instances: number
  expiryMs: number
  /** Maximum pause between two steps of a workload. */
  pauseMs: number
  number: number
  history: string
  driver: 'pg' | 'postgres.js'
  anchor: 'required' | 'none'
  clockMs: number
  seed: number
  onlyRooms: string[] | undefined
  pooled: boolean
}

/** Member of the fleet: one process at a time. */
export class Member {
  /** The running process, if any, and the ids of its instances after they have opened. */
  child: ChildProcess | undefined
  instanceIds: string[] = []
  network!: Network
  /** Time by performance.now() until which notifications may not reach the process. */
  unreachableUntil = 0
  /** Number of processes started so far. */
  count = 0
  onDeath = (_text: string) => {}
  #isClosing = false
  #options!: InstanceOptions
  #isFrozen = false
  /** Resolves when the process has opened its instances, or has ended. */
  #opened: Promise<unknown> = Promise.resolve()

  static async make(options: InstanceOptions) {
    const member = new Member()
    member.#options = options
    member.network = await Network.before(options.url)
    return member
  }

  get pid() {
    return this.child?.pid
  }

  get openWithinMs() {
    return openWithinMs + openMoreWithinMs * (this.#options.instances - 1)
  }

  get isPooled() {
    return this.#options.pooled
  }

  async start() {
    const { number, history, seed, url, ...rest } = this.#options
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
      // Only a kill may end a process. Every other fault must leave it running.
      if (signal !== 'SIGKILL' && !this.#isClosing)
        this.onDeath(`process ${child.pid} ended without a kill, with ${code ?? signal}`)
    })
    this.instanceIds = []
    const opened = Promise.race([once(child, 'message'), once(child, 'exit')])
    this.#opened = opened
    const [message] = await within(this.openWithinMs, `Opening process ${child.pid}`, opened)
    if (message?.opened) this.instanceIds = message.opened
  }

  order(order: string, details = {}) {
    if (this.child?.connected) this.child.send({ order, ...details }, () => {})
  }

  /** Notes that notifications may not reach the process for `ms`, and that the process may need up to one more expiry to notice a loss. */
  markUnreachable(ms: number) {
    this.unreachableUntil = Math.max(this.unreachableUntil, performance.now() + ms + this.#options.expiryMs)
  }

  get isUnreachable() {
    return performance.now() < this.unreachableUntil
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

  async finish(patienceMs: number) {
    // The process can still be opening its instances, because a fault near the end of the plan has started it.
    await within(this.openWithinMs, 'Opening the process', this.#opened)
    const child = this.#living()
    const finished = once(child, 'message')
    this.order('finish', { reportAfterMs: 0.8 * patienceMs })
    await within(
      patienceMs,
      `Finishing the work of process ${child.pid}`,
      Promise.race([finished, once(child, 'exit')]),
    )
  }

  /** Throws an error that the judge reports if the process has already ended. `onDeath` has reported the death, too. */
  #living(): ChildProcess {
    if (this.child) return this.child
    throw new Error('A process ended before it was asked to close')
  }

  /** Closes the instance. Then the process must exit without a kill. */
  async close() {
    const child = this.#living()
    const exited = once(child, 'exit')
    this.#isClosing = true
    this.order('close')
    const [code] = await within(40_000, `The exit of process ${child.pid}`, exited)
    if (code !== 0) throw new Error(`A process exited with status ${code}`)
  }
}
