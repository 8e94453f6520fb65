// The processes of the fleet: one that stays, and those that deploys replace, one at a time, in good order or by a kill.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Counts, Given, Sample } from './member.ts'
import { instances } from './week.ts'

const program = new URL('./member.ts', import.meta.url)

interface Member {
  child: ChildProcess
  isToEnd: boolean
  gone: Promise<unknown[]>
}

export class Fleet {
  #given: Given
  #members: Member[] = []
  #ended: Counts = { done: {}, refused: {} }
  #replaced = 0
  #failure!: (error: Error) => void

  /** Rejects with what went wrong in an instance that was not to be. */
  broken = new Promise<never>((_, reject) => {
    this.#failure = reject
  })

  constructor(given: Given) {
    this.#given = given
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
    let said = ''
    child.stderr!.on('data', (chunk) => {
      said = (said + chunk).slice(-4_000)
    })
    const member = { child, isToEnd: false, gone: once(child, 'exit') }
    member.gone.then(([code, signal]) => {
      if (!member.isToEnd) this.#failure(new Error(`An instance ended by itself (${signal ?? code}): ${said}`))
    })
    child.send({ ...this.#given, stays })
    await Promise.race([once(child, 'message'), this.broken])
    return member
  }

  /** The first in good order, and the next, and every fourth by a kill; never the one that stays. */
  async replace() {
    const at = 1 + (this.#replaced++ % (instances - 1))
    const old = this.#members[at]!
    old.isToEnd = true
    const next = this.#start(false)
    if (this.#replaced % 4 === 0) old.child.kill('SIGKILL')
    else await this.#leave(old)
    await old.gone
    this.#members[at] = await next
  }

  async #leave(member: Member) {
    member.isToEnd = true
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
      for (const [what, often] of Object.entries(of)) into[what] = (into[what] ?? 0) + often
    }
  }

  /** Of the one that stays. */
  async sample(): Promise<Sample> {
    const { child } = this.#members[0]!
    child.send('sample')
    const [{ sample }] = await Promise.race([once(child, 'message'), this.broken])
    return sample
  }

  /** All leave. What the killed ones did is not in the count. */
  async close() {
    await Promise.all(this.#members.map((member) => this.#leave(member)))
    await Promise.all(this.#members.map(({ gone }) => gone))
    return { ...this.#ended, replaced: this.#replaced }
  }

  kill() {
    for (const member of this.#members) {
      member.isToEnd = true
      member.child.kill('SIGKILL')
    }
  }
}
