import { type ChildProcess, fork, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { resultWithin } from '../base/index.js'
import type { DemoDatabase } from './database.js'
import type { InstanceMessage, InstanceOptions } from './messages.js'

const program = fileURLToPath(new URL('./instance.js', import.meta.url))
/** Runs may come to their end, on a machine that is busy with them. */
const closeMs = 15_000

// Alphabetical, so that a name also tells how early an instance came.
const names =
  'Ada Ben Cleo Dan Eva Finn Gus Hana Ida Jo Kai Lea Max Nia Oto Pia Quin Rosa Sam Tess Uma Vic Wim Xia Yan Zoe'
const firstNames = names.split(' ')

function nameOf(number: number): string {
  const round = Math.floor(number / firstNames.length)
  return `${firstNames[number % firstNames.length]}${round === 0 ? '' : ` ${round + 1}`}`
}

/** One instance, as the demo sees it: a process of its own. */
export class Member {
  readonly name: string
  readonly ended: Promise<void>
  /** What it is in the middle of. */
  readonly works = new Set<string>()
  state: 'opening' | 'open' | 'frozen' | 'gone' = 'opening'
  /** Of its web server. */
  port = 0
  /** It was killed, or told to close. */
  isExpectedToEnd = false
  readonly #process: ChildProcess
  #freezer: ChildProcess | undefined

  constructor(
    options: InstanceOptions,
    onMessage: (member: Member, message: InstanceMessage) => void,
    onEnded: (member: Member, how: string) => void,
  ) {
    this.name = options.name
    this.#process = fork(program, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#process.on('message', (said) => onMessage(this, said as InstanceMessage))
    this.#process.on('error', () => {}) // It is gone, which `exit` tells.
    this.ended = new Promise((resolve) => {
      this.#process.once('exit', (status, signal) => {
        this.state = 'gone'
        onEnded(this, signal ?? `status ${status}`)
        resolve()
      })
    })
    this.#send(options)
  }

  get pid(): number {
    return this.#process.pid!
  }

  kill(): void {
    this.isExpectedToEnd = true
    this.state = 'gone'
    this.#process.kill('SIGKILL')
  }

  /**
   * Stops it, as a virtual machine that is moved does. Who thaws it is a process of its own, outside of our group: it does so
   * when we tell it, and also when we are killed. A frozen process could not notice that.
   */
  freeze(): void {
    this.state = 'frozen'
    const script = 'kill -STOP "$1"; read -r _; kill -CONT "$1"'
    this.#freezer = spawn('sh', ['-c', script, 'holdfast-demo-freezer', String(this.pid)], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    })
  }

  async thaw(): Promise<void> {
    const freezer = this.#freezer
    if (!freezer) return
    this.#freezer = undefined
    freezer.stdin!.end()
    if (freezer.exitCode === null) await new Promise((resolve) => freezer.once('exit', resolve))
    if (this.state === 'frozen') this.state = 'open'
  }

  /** Lets it close in order, for a while. */
  async close(): Promise<void> {
    await this.thaw()
    this.isExpectedToEnd = true
    this.#send('close')
    const ended = this.ended.then(() => true)
    if (!(await resultWithin(closeMs, ended))) this.kill()
    await ended
  }

  #send(message: InstanceOptions | 'close'): void {
    this.#process.send(message, () => {}) // Whether it arrived shows by its end.
  }
}

interface FleetListener {
  onMessage(member: Member, message: InstanceMessage): void
  onEnded(member: Member, how: string): void
}

/** The instances, those that were killed included until they have been replaced. */
export class Fleet {
  readonly #database: DemoDatabase
  readonly #expiryMs: number
  readonly #listener: FleetListener
  readonly #members = new Set<Member>()
  #started = 0

  constructor(database: DemoDatabase, expiryMs: number, listener: FleetListener) {
    this.#database = database
    this.#expiryMs = expiryMs
    this.#listener = listener
  }

  start(): Member {
    const { url, directUrl, schema, tables } = this.#database
    const options = { name: nameOf(this.#started++), url, directUrl, schema, tables, expiryMs: this.#expiryMs }
    const member = new Member(
      options,
      (from, message) => this.#listener.onMessage(from, message),
      (who, how) => {
        this.#members.delete(who)
        this.#listener.onEnded(who, how)
      },
    )
    this.#members.add(member)
    return member
  }

  /** Those that do their work. */
  get open(): Member[] {
    return [...this.#members].filter(({ state }) => state === 'open')
  }

  /** Those that a load balancer would send requests to: it takes a while to notice who answers no more. */
  get reachable(): Member[] {
    return [...this.#members].filter(({ state }) => state === 'open' || state === 'frozen')
  }

  async close(): Promise<void> {
    await Promise.all([...this.#members].map((member) => member.close()))
  }
}
