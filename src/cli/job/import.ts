import { suggest, UsageError } from '../../base/index.js'
import { type ImportResult, type ImportSource, importSources, type SkipReason } from '../../jobs/index.js'
import { requireConfirmation } from '../confirm.js'
import { withHoldfast } from '../connect.js'
import { printMessage } from '../failure.js'
import { countText, printDocument } from '../output.js'
import type { Settings } from '../settings.js'

export async function jobImport(settings: Settings, word: string): Promise<void> {
  const from = readSource(word)
  const dryRun = settings.flag('dryRun')
  const options = { schema: settings.text('fromSchema'), kind: settings.text('kind'), into: settings.text('into') }
  await withHoldfast(settings, async ({ jobs }) => {
    const needsConfirmation = !dryRun && !settings.flag('yes')
    const planned = dryRun || needsConfirmation ? await jobs.importFrom(from, { ...options, dryRun: true }) : undefined
    if (needsConfirmation && planned!.imported.length > 0) {
      printMessage(
        `This will move ${countText(total(planned!), 'job')} from ${from} to Holdfast, and remove them from ${from}: ${kindList(planned!)}.`,
      )
      await requireConfirmation(settings, 'moving jobs', 'Move them?')
    }
    const done = planned && (dryRun || planned.imported.length === 0) ? planned : await jobs.importFrom(from, options)
    printDocument<'job-import'>(settings, { from, dryRun, ...done })
    const verb = dryRun ? 'Would move' : 'Moved'
    printMessage(
      total(done) === 0
        ? `No job can be moved from ${from}.`
        : `${verb} ${countText(total(done), 'job')} from ${from}: ${kindList(done)}.`,
    )
    for (const { reason, jobs } of done.skipped)
      printMessage(`${countText(jobs, 'job')} not moved: ${reasons[reason]}.`)
  })
}

const reasons: Record<SkipReason, string> = {
  running: 'they are running; jobs that fail and wait for a retry can be imported later',
  ended: 'they have ended, or have failed permanently',
  locked: 'they were locked by another session, or they are new; run the import again',
  key: 'another job in Holdfast has the same unique key',
  busy: 'their queue runs one job at a time, and one is running; run the import again',
  linked: 'they wait for other jobs, or other jobs wait for them',
  flags: 'they have flags that select workers, which Holdfast does not support',
  large: 'an input is larger than 1,000,000 bytes, or a name is longer than 500 characters',
  internal: 'they are internal jobs of pg-boss',
}

function readSource(word: string): ImportSource {
  const source = importSources.find((name) => name === word)
  if (source) return source
  const meant = suggest(word, importSources)
  throw new UsageError(
    `Expected ${importSources.map((name) => `"${name}"`).join(' or ')}, got ${JSON.stringify(word)}`,
    meant && `Did you mean "${meant}"?`,
  )
}

function total({ imported }: ImportResult): number {
  return imported.reduce((all, { jobs }) => all + jobs, 0)
}

function kindList({ imported }: ImportResult): string {
  return imported.map(({ kind, jobs }) => `${jobs.toLocaleString('en')} ${kind}`).join(', ')
}
