import { defaultTimes, formatDuration } from '../../base/index.js'
import { type Change, changeText, isBadChange } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type Column, namespaceColumn, onlyWhenPiped, pipedColumns, printRows } from '../output.js'
import { maxSinceMs, type Settings } from '../settings.js'

export async function listChanges(settings: Settings): Promise<void> {
  const sinceMs = settings.durationMs('since', 60_000, maxSinceMs) ?? defaultTimes.sinceMs
  const limit = settings.wholeNumber('limit', 1, 1_000) ?? 50
  const namespace = settings.name('namespace')
  const { rows, until } = await observe(settings, (observer) =>
    observer.changes({ namespace, hours: sinceMs / 3_600_000, limit: limit + 1 }),
  )
  const shown = rows.slice(0, limit)
  printRows<'changes'>(settings, shown, columns(shown, until))
  if (rows.length === 0) printMessage(`Nothing has changed in the last ${formatDuration(sinceMs)}.`)
  if (rows.length > limit) printMessage(`Only the latest ${limit} changes are shown. Use --limit to show more.`)
}

function columns(changes: readonly Change[], until: Date): Column<Change>[] {
  return [
    {
      title: 'WHEN',
      value: ({ at }) => at,
      shown: ({ at }) => `${formatDuration(Math.max(0, until.getTime() - at.getTime()))} ago`,
    },
    namespaceColumn(changes),
    { title: 'KIND', value: ({ kind }) => kind, shown: onlyWhenPiped },
    { title: 'CHANGE', value: changeText, colour: (change) => (isBadChange(change) ? 'red' : undefined) },
    ...pipedColumns<Change>({ INSTANCE: 'instance', JOB: 'job' }),
  ]
}
