import { text as readAll } from 'node:stream/consumers'
import { UsageError } from '../../base/index.js'
import { defineJob } from '../../index.js'
import { withHoldfast } from '../connect.js'
import { printMessage } from '../failure.js'
import { printDocument, write } from '../output.js'
import type { Settings } from '../settings.js'

export async function jobAdd(settings: Settings, queue: string, kind: string, inputText = 'null'): Promise<void> {
  const delay = settings.durationMs('delay')
  const runAt = settings.time('runAt')
  const priority = settings.wholeNumber('priority', -5, 5)
  if (delay !== undefined && runAt) throw new UsageError('Expected --delay or --run-at, got both')
  const definition = defineJob<unknown>(kind, { queue })
  const input = parseInput(inputText === '-' ? await readAll(process.stdin) : inputText)
  const { id } = await withHoldfast(settings, ({ jobs }) => jobs.enqueue(definition, input, { delay, runAt, priority }))
  if (!printDocument<'job-add'>(settings, { id })) write([String(id)])
  if (process.stderr.isTTY) printMessage(`Enqueued job ${id}. Run \`holdfast job show ${id}\` to see its state.`)
}

function parseInput(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const start = text.length > 60 ? `${text.slice(0, 57)}…` : text
    throw new UsageError(
      `Expected the payload to be JSON, got ${JSON.stringify(start)}: ${(error as Error).message}`,
      `Quote the payload for the shell, such as '{"to": "ada@example.com"}' or '"ada"', or use - to read it from stdin.`,
    )
  }
}
