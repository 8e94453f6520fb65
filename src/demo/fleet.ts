import { type ChildProcess, fork, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { resultWithin } from '../base/index.js'
import type { InstanceMessage, InstanceOptions } from './messages.js'

const program = fileURLToPath(new URL('./instance.js', import.meta.url))
/** Maximum time for running work to finish, long enough for a busy machine. */
const closeMs = 15_000

// The names are in alphabetical order, so that they show the order in which the instances started.
const names =
  'Ada Ben Cleo Dan Eva Finn Gus Hana Ida Jo Kai Lea Max Nia Oto Pia Quin Rosa Sam Tess Uma Vic Wim Xia Yan Zoe'
const firstNames = names.split(' ')

function nameOf(number: number): string {
  const round = Math.floor(number / firstNames.length)
  return `${firstNames[number % firstNames.length]}${round === 0 ? '' : ` ${round + 1}`}`
}

interface FleetListener {
  onMessage?(member: Member, message: InstanceMessage): void
  onEnded?(member: Member, how: string): void
}

/** One instance's process. */
export class Member {
  readonly name: string
  readonly ended: Promise<void>
  /** Work items that are running now. */
  readonly works = new Set<string>()
  state: 'opening' | 'open' | 'frozen' | 'gone' = 'opening'
  /** Port of the instance's web server. */
  port = 0
  /** True after the demo has killed or closed the instance. */
  isExpectedToEnd = false
  readonly #process: ChildProcess
  #freezer: ChildProcess | undefined

  constructor(options: InstanceOptions, listener: FleetListener) {
    this.name = options.name
    // Detached, so that Ctrl-C in a terminal does not end the instances. The demo closes them.
    this.#process = fork(program, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'], detached: true })
    this.#process.on('message', (given) => {
      const message = given as InstanceMessage
      if (message.type === 'open') {
        // Ignores a message if its instance was killed before the message arrived.
        if (this.state !== 'opening') return
        this.state = 'open'
        this.port = message.port
      }
      listener.onMessage?.(this, message)
    })
    this.#process.on('error', () => {}) // `exit` reports the end.
    this.ended = new Promise((resolve) => {
      this.#process.once('exit', (status, signal) => {
        this.state = 'gone'
        listener.onEnded?.(this, signal ?? `status ${status}`)
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
   * Freezes the process, like a paused virtual machine. A helper process outside this process group resumes the frozen
   * process when the helper's stdin closes. The helper's stdin closes on `thaw`, and also if the demo is killed. The
   * helper is necessary because a frozen process cannot detect that the demo has ended.
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

  /** Closes the instance cleanly, or kills it after a timeout. */
  async close(): Promise<void> {
    await this.thaw()
    this.isExpectedToEnd = true
    this.#send('close')
    const ended = this.ended.then(() => true)
    if (!(await resultWithin(closeMs, ended))) this.kill()
    await ended
  }

  #send(message: InstanceOptions | 'close'): void {
    this.#process.send(message, () => {}) // `exit` reports an instance that did not receive it.
  }
}

type InstancePlace = Omit<InstanceOptions, 'name'>

/** The instances of a company whose processes have not ended. */
export class Fleet {
  readonly #place: InstancePlace
  readonly #listener: FleetListener
  readonly #members = new Set<Member>()
  #started = 0

  constructor(place: InstancePlace, listener: FleetListener = {}) {
    this.#place = place
    this.#listener = listener
  }

  start(): Member {
    const options = { ...this.#place, name: nameOf(this.#started++) }
    const onEnded = (who: Member, how: string) => {
      this.#members.delete(who)
      this.#listener.onEnded?.(who, how)
    }
    const member = new Member(options, { ...this.#listener, onEnded })
    this.#members.add(member)
    return member
  }

  find(name: string): Member | undefined {
    return [...this.#members].find((member) => member.name === name)
  }

  /** Instances that are open and not frozen. */
  get open(): Member[] {
    return [...this.#members].filter(({ state }) => state === 'open')
  }

  /**
   * Instances that receive requests, including frozen instances, because a load balancer does not detect a freeze
   * immediately.
   */
  get reachable(): Member[] {
    return [...this.#members].filter(({ state }) => state === 'open' || state === 'frozen')
  }

  async close(): Promise<void> {
    await Promise.all([...this.#members].map((member) => member.close()))
  }
}
