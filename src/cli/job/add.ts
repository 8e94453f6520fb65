import { text as readAll } from 'node:stream/consumers'
import { UsageError } from '../../base/index.js'
import { defineJob } from '../../index.js'
import { withHoldfast } from '../connect.js'
import { printMessage } from '../failure.js'
import { printDocument, write } from '../output.js'
import type { Settings } from '../settings.js'

const noHandler = () => {
  throw new Error('Only a worker has the handler of this job')
}

export async function jobAdd(settings: Settings, queue: string, kind: string, inputText = 'null'): Promise<void> {
  const delay = settings.durationMs('delay')
  const runAt = settings.time('runAt')
  const priority = settings.wholeNumber('priority', -5, 5)
  if (delay !== undefined && runAt) throw new UsageError('Expected --delay or --run-at, got both')
  const definition = defineJob(kind, { queue, run: noHandler })
  const input = parseInput(inputText === '-' ? await readAll(process.stdin) : inputText)
  const { id } = await withHoldfast(settings, ({ jobs }) => jobs.enqueue(definition, input, { delay, runAt, priority }))
  if (!printDocument<'job-add'>(settings, { id })) write([String(id)])
  if (process.stderr.isTTY) printMessage(`Enqueued job ${id}: \`holdfast job show ${id}\` shows its state.`)
}

function parseInput(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const start = text.length > 60 ? `${text.slice(0, 57)}…` : text
    throw new UsageError(
      `Expected the payload to be JSON, got ${JSON.stringify(start)}: ${(error as Error).message}`,
      `Quote it for the shell: '{"to": "ada@example.com"}', or a text as '"ada"'; - reads it from stdin.`,
    )
  }
}
