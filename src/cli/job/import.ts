import { suggest, UsageError } from '../../base/index.js'
import { type Imported, type ImportSource, importSources, type WhyLeft } from '../../jobs/index.js'
import { agree } from '../confirm.js'
import { withHoldfast } from '../connect.js'
import { say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'

/** Moves the jobs that wait in the tables of another library. */
export async function jobImport(settings: Settings, word: string): Promise<void> {
  const from = sourceOf(word)
  const dryRun = settings.flag('dryRun')
  const options = { schema: settings.text('fromSchema'), kind: settings.text('kind'), into: settings.text('into') }
  await withHoldfast(settings, async ({ jobs }) => {
    const mustAsk = !dryRun && !settings.flag('yes')
    const planned = dryRun || mustAsk ? await jobs.importFrom(from, { ...options, dryRun: true }) : undefined
    if (mustAsk && planned!.imported.length > 0) {
      say(`This moves ${amount(total(planned!))} of ${from} here, and removes them there: ${listOf(planned!)}.`)
      await agree(settings, 'moving jobs', 'Move them?')
    }
    const done = planned && (dryRun || planned.imported.length === 0) ? planned : await jobs.importFrom(from, options)
    printDocument<'job-import'>(settings, { from, dryRun, ...done })
    const verb = dryRun ? 'Would move' : 'Moved'
    say(
      total(done) === 0
        ? `No job of ${from} is to be moved.`
        : `${verb} ${amount(total(done))} of ${from}: ${listOf(done)}.`,
    )
    for (const { why, jobs } of done.left)
      say(`${amount(jobs)} ${jobs === 1 ? 'stays' : 'stay'} there: ${reasons[why]}.`)
  })
}

const reasons: Record<WhyLeft, string> = {
  running: 'workers have them; what fails there and is tried again can be imported then',
  ended: 'they have ended, or failed for good',
  locked: 'somebody had them locked just then, or they came meanwhile; import again',
  key: 'another job has their unique key here',
  busy: 'one of their line, of which only one may run, runs there; import again',
  tied: 'they wait for others, or others for them',
  flags: 'flags say which workers may run them, and nothing does so here',
  large: 'an input is larger than 1,000,000 bytes, or a name than 500 characters',
  internal: 'they are pg-boss’s own',
}

function sourceOf(word: string): ImportSource {
  const source = importSources.find((name) => name === word)
  if (source) return source
  const meant = suggest(word, importSources)
  throw new UsageError(
    `Expected ${importSources.map((name) => `"${name}"`).join(' or ')}, got ${JSON.stringify(word)}`,
    meant && `Did you mean "${meant}"?`,
  )
}

function total({ imported }: Imported): number {
  return imported.reduce((all, { jobs }) => all + jobs, 0)
}

function listOf({ imported }: Imported): string {
  return imported.map(({ kind, jobs }) => `${jobs.toLocaleString('en')} ${kind}`).join(', ')
}

function amount(jobs: number): string {
  return `${jobs.toLocaleString('en')} ${jobs === 1 ? 'job' : 'jobs'}`
}
