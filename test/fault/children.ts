import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { until, within } from '../setup/facts.js'
import { typescript } from '../setup/typescript.js'

/** A process of the test's own, and everything that it has told. Killed when the test has finished. */
export class Child<Message = unknown> {
  readonly messages: Message[] = []
  readonly process: ChildProcess
  killedAt: bigint | undefined
  readonly #exited: Promise<void>

  constructor(program: string | URL, details: object) {
    const path = fileURLToPath(new URL(program, import.meta.url))
    this.process = fork(path, [JSON.stringify(details)], {
      execArgv: typescript,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.#exited = new Promise((resolve) => this.process.once('exit', () => resolve()))
    this.process.on('message', (message) => this.messages.push(message as Message))
    onTestFinished(async () => {
      this.kill()
      await this.ended()
    })
  }

  get isAlive(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** The first message that fits, once it has come; fails when the process ends without it. */
  tells(what: string, fits: (message: Message) => boolean, withinMs = 20_000): Promise<Message> {
    return until(
      `a process tells: ${what}`,
      () => {
        const found = this.messages.find(fits)
        // What it has sent may be read after its end, until its channel is closed.
        if (found === undefined && !this.isAlive && !this.process.connected) {
          const { exitCode, signalCode } = this.process
          throw new Error(`A process ended with ${exitCode ?? signalCode} before it told: ${what}`)
        }
        return found
      },
      withinMs,
    ) as Promise<Message>
  }

  /** Whatever it tells first. */
  first(what: string, withinMs = 60_000): Promise<Message> {
    return this.tells(what, () => true, withinMs)
  }

  /** Who has gone does not hear it, which is no error of whatever test runs by then. */
  send(order: string | object): void {
    if (this.process.connected) this.process.send(order, () => {})
  }

  kill(): bigint {
    this.killedAt ??= process.hrtime.bigint()
    this.process.kill('SIGKILL')
    return this.killedAt
  }

  /** Its status, or the signal that ended it, once it has ended. */
  async ended(withinMs = 40_000): Promise<number | NodeJS.Signals> {
    await within(withinMs, 'The end of a process', this.#exited)
    return (this.process.exitCode ?? this.process.signalCode)!
  }

  /** Ends in good order, by itself, when it is told to. */
  async close(order: string | object = 'close', withinMs = 40_000): Promise<void> {
    this.send(order)
    const how = await this.ended(withinMs)
    if (how !== 0) throw new Error(`A process that was to close ended with ${how}`)
  }
}

/** In words: how long something took, many times. */
export function quantiles(took: readonly number[]): string {
  const sorted = [...took].sort((x, y) => x - y)
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!.toFixed(1)
  return `${took.length} times: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms`
}
