import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { until, within } from '../setup/facts.js'
import { typescript } from '../setup/typescript.js'

/** Child process of a test, with all messages that it has sent. Killed when the test has finished. */
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

  /** Waits for the first matching message. Throws if the process ends without sending it. */
  waitFor(what: string, matches: (message: Message) => boolean, withinMs = 20_000): Promise<Message> {
    return until(
      `the message of a child process arrives: ${what}`,
      () => {
        const found = this.messages.find(matches)
        // Messages may arrive after the process has ended, until the channel is closed.
        if (found === undefined && !this.isAlive && !this.process.connected) {
          const { exitCode, signalCode } = this.process
          throw new Error(`A child process ended with ${exitCode ?? signalCode} before it sent this message: ${what}`)
        }
        return found
      },
      withinMs,
    ) as Promise<Message>
  }

  /** Waits for the first message of the process. */
  first(what: string, withinMs = 60_000): Promise<Message> {
    return this.waitFor(what, () => true, withinMs)
  }

  /** Sends an order. Does nothing if the process has ended, and ignores errors, because another test may be running by then. */
  send(order: string | object): void {
    if (this.process.connected) this.process.send(order, () => {})
  }

  kill(): bigint {
    this.killedAt ??= process.hrtime.bigint()
    this.process.kill('SIGKILL')
    return this.killedAt
  }

  /** Waits for the end of the process. Returns its exit status or the signal that ended it. */
  async ended(withinMs = 40_000): Promise<number | NodeJS.Signals> {
    await within(withinMs, 'The end of a child process', this.#exited)
    return (this.process.exitCode ?? this.process.signalCode)!
  }

  /** Sends the order to close, and waits until the process has exited with status 0. */
  async close(order: string | object = 'close', withinMs = 40_000): Promise<void> {
    this.send(order)
    const how = await this.ended(withinMs)
    if (how !== 0) throw new Error(`A child process did not close properly: it ended with ${how}`)
  }
}

/** Formats the count and the quantiles of durations. */
export function quantiles(took: readonly number[]): string {
  const sorted = [...took].sort((x, y) => x - y)
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!.toFixed(1)
  return `${took.length} times: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms`
}
