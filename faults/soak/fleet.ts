// The fleet's processes. One process runs for the whole week. Deployments replace the others one at a time, and some of
// these are killed.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Counts, MemberOptions, Sample } from './member.ts'
import { instances } from './week.ts'

const program = new URL('./member.ts', import.meta.url)

interface Member {
  child: ChildProcess
  isStopping: boolean
  gone: Promise<unknown[]>
}

export class Fleet {
  #options: MemberOptions
  #members: Member[] = []
  #ended: Counts = { done: {}, refused: {} }
  #replaced = 0
  #failure!: (error: Error) => void

  /** Rejects if an instance ends although it should run. */
  broken = new Promise<never>((_, reject) => {
    this.#failure = reject
  })

  constructor(options: MemberOptions) {
    this.#options = options
    this.broken.catch(() => {})
  }

  async open() {
    this.#members = await Promise.all(Array.from({ length: instances }, (_, at) => this.#start(at === 0)))
  }

  async #start(stays: boolean): Promise<Member> {
    const child = fork(program, {
      execArgv: [...process.execArgv, '--expose-gc'],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    })
    let stderr = ''
    child.stderr!.on('data', (chunk) => {
      stderr = (stderr + chunk).slice(-4_000)
    })
    const member = { child, isStopping: false, gone: once(child, 'exit') }
    member.gone.then(([code, signal]) => {
      if (!member.isStopping) this.#failure(new Error(`An instance ended unexpectedly (${signal ?? code}): ${stderr}`))
    })
    child.send({ ...this.#options, stays })
    await Promise.race([once(child, 'message'), this.broken])
    return member
  }

  /** Replaces the next instance, but never the long-running one. Kills every fourth instance and closes the others gracefully. */
  async replace() {
    const at = 1 + (this.#replaced++ % (instances - 1))
    const old = this.#members[at]!
    old.isStopping = true
    const next = this.#start(false)
    if (this.#replaced % 4 === 0) old.child.kill('SIGKILL')
    else await this.#leave(old)
    await old.gone
    this.#members[at] = await next
  }

  async #leave(member: Member) {
    member.isStopping = true
    member.child.send('leave')
    for (;;) {
      const [message] = await Promise.race([once(member.child, 'message'), member.gone.then(() => [{}])])
      if (message.left) this.#count(message.left)
      if (!message.sample) return
    }
  }

  #count({ done, refused }: Counts) {
    for (const [into, of] of [
      [this.#ended.done, done],
      [this.#ended.refused, refused],
    ] as const) {
      for (const [what, count] of Object.entries(of)) into[what] = (into[what] ?? 0) + count
    }
  }

  /** Takes a sample in the long-running instance. */
  async sample(): Promise<Sample> {
    const { child } = this.#members[0]!
    child.send('sample')
    const [{ sample }] = await Promise.race([once(child, 'message'), this.broken])
    return sample
  }

  /** Closes all instances. Returns how often each operation was done, without the operations of killed instances. */
  async close() {
    await Promise.all(this.#members.map((member) => this.#leave(member)))
    await Promise.all(this.#members.map(({ gone }) => gone))
    return { ...this.#ended, replaced: this.#replaced }
  }

  kill() {
    for (const member of this.#members) {
      member.isStopping = true
      member.child.kill('SIGKILL')
    }
  }
}
