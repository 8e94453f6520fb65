import type { Overview } from '../../observe/index.js'
import { paint, write } from '../output.js'
import type { Settings } from '../settings.js'
import { layoutFor } from '../table.js'
import { databaseLines } from './databases.js'
import { textOf } from './layout.js'
import { panels } from './panels.js'
import { type OverviewSource, readAll } from './sources.js'
import type { WatchedDatabase } from './view.js'

/** Maximum number of rows in a panel. */
const maxRows = 20

/**
 * Prints the overview of each database as plain text with one table for each panel. Lines are cut to the terminal's width.
 * The list of several databases comes first.
 */
export async function printReport(settings: Settings, sources: readonly OverviewSource[]): Promise<void> {
  if (sources.length === 1) return printOverview(settings, sources[0]!.address, await sources[0]!.read())
  const { databases } = await readAll(sources)
  const watched = databases.map(({ name, overview, error }, at): WatchedDatabase => {
    const outage = error === null ? undefined : { reason: error, forMs: 0 }
    return { name, address: sources[at]!.address, overview: overview ?? undefined, outage }
  })
  const columns = process.stdout.isTTY ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY
  write(databaseLines(watched, columns).map((line) => textOf(line).trimEnd()))
  for (const { name, address, overview, outage } of watched) {
    write(['', `${name}:`])
    if (overview) printOverview(settings, address, overview)
    else write([`${address}: ${outage!.reason}`])
  }
}

function printOverview(settings: Settings, address: string, overview: Overview): void {
  const room = process.stdout.isTTY ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY
  write([`${address}, PostgreSQL ${overview.server}, ${overview.at.toISOString()}`])
  for (const panel of panels) {
    const rows = panel.rows(overview)
    const total = Math.max(panel.total(overview), rows.length)
    write(['', `${paint(settings, panel.title, 'dim')} ${total === 0 ? 'none' : total}`])
    if (rows.length === 0) continue
    const titles = panel.columns.map(({ title }) => title)
    const shown = rows.slice(0, maxRows).map(({ cells }) => cells.map(({ text }) => text))
    const layOut = layoutFor([titles, ...shown], room)
    write([layOut(titles, (text) => paint(settings, text, 'dim'))])
    write(shown.map((line) => layOut(line, (text) => text)))
    if (total > shown.length) write([`… ${total - shown.length} more: ${panel.listedBy}`])
  }
}
