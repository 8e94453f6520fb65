import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { until } from '../setup/facts.js'

/** A process of the test's own, and everything that it has told. */
export class Child<Message extends { event: string }> {
  readonly messages: Message[] = []
  readonly process: ChildProcess
  killedAt: bigint | undefined

  constructor(program: string, details: object) {
    const path = fileURLToPath(new URL(program, import.meta.url))
    this.process = fork(path, [JSON.stringify(details)])
    this.process.on('message', (message) => this.messages.push(message as Message))
    onTestFinished(() => void this.process.kill('SIGKILL'))
  }

  /** The first message that fits, once it has come. */
  tells(what: string, fits: (message: Message) => boolean, withinMs = 20_000): Promise<Message> {
    return until(`a process tells: ${what}`, () => this.messages.find(fits), withinMs) as Promise<Message>
  }

  kill(): bigint {
    this.killedAt = process.hrtime.bigint()
    this.process.kill('SIGKILL')
    return this.killedAt
  }
}

/** In words: how long something took, many times. */
export function quantiles(took: readonly number[]): string {
  const sorted = [...took].sort((x, y) => x - y)
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!.toFixed(1)
  return `${took.length} times: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms`
}
