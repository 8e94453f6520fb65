import type { Overview } from '../../observe/index.js'
import { paint, write } from '../output.js'
import type { Settings } from '../settings.js'
import { layoutFor } from '../table.js'
import { panels } from './panels.js'

/** Maximum number of rows in a panel. */
const maxRows = 20

/** Prints the overview as plain text with one table for each panel. Lines are cut to the terminal's width. */
export function printReport(settings: Settings, overview: Overview, address: string): void {
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
