import { text as readAll } from 'node:stream/consumers'
import { acts } from '../../acts/index.js'
import { UsageError } from '../../base/index.js'
import { withActs } from '../act.js'
import { conditionNotMet, printMessage } from '../failure.js'
import { printDocument, write } from '../output.js'
import type { Settings } from '../settings.js'

export async function jobAdd(settings: Settings, queue: string, kind: string, inputText = 'null'): Promise<void> {
  const delay = settings.durationMs('delay')
  const at = settings.time('runAt')
  const startBy = settings.time('startBy')
  const priority = settings.wholeNumber('priority', -5, 5)
  if (delay !== undefined && at) throw new UsageError('Expected --delay or --run-at, got both')
  const input = await readInput(inputText)
  const { namespace } = settings
  await withActs(settings, async (context) => {
    const runAt = delay === undefined ? at : new Date((await context.observer.now()).getTime() + delay)
    const {
      job: id,
      text,
      warning,
    } = await acts['enqueue-job'].run(context, {
      namespace,
      queue,
      kind,
      input,
      runAt,
      startBy,
      priority,
    })
    if (id === undefined) return conditionNotMet(text)
    if (!printDocument<'job-add'>(settings, { id })) write([String(id)])
    if (process.stderr.isTTY) printMessage(`${text} Run \`holdfast job show ${id}\` to see its state.`)
    else if (warning) printMessage(warning)
  })
}

/** Returns the input of a job as JSON text, from the command line or from stdin. */
export async function readInput(given: string): Promise<string> {
  const text = given === '-' ? await readAll(process.stdin) : given
  try {
    JSON.parse(text)
    return text
  } catch (error) {
    const start = text.length > 60 ? `${text.slice(0, 57)}…` : text
    throw new UsageError(
      `Expected the input to be JSON, got ${JSON.stringify(start)}: ${(error as Error).message}`,
      `Quote the input for the shell, such as '{"to": "ada@example.com"}' or '"ada"', or use - to read it from stdin.`,
    )
  }
}
