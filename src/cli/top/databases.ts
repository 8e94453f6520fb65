// The list of all databases, with totals and with the latest problems.
import type { Overview, OverviewQueue } from '../../observe/index.js'
import { layoutFor } from '../table.js'
import { age, type Line, type Style } from './panel.js'
import { problems } from './panels.js'
import type { WatchedDatabase } from './view.js'

const titles = ['DATABASE', 'STATE', 'INSTANCES', 'LOST', 'QUEUES', 'READY', 'RUNNING', 'DONE/S', 'OLDEST', 'PROBLEMS']
const maxProblems = 20

/**
 * Returns a table with one line for each database, a line with the totals, and the latest problems of all databases.
 */
export function databaseLines(databases: readonly WatchedDatabase[], columns: number, selected?: number): Line[] {
  const known = databases.flatMap(({ overview }) => (overview ? [overview] : []))
  const available = databases.filter(({ outage, overview }) => overview && !outage).length
  const rows = databases.map((one) => [one.name ?? '', stateOf(one), ...countsOf(one.overview ? [one.overview] : [])])
  const sums = ['all', `${available} of ${databases.length} up`, ...countsOf(known)]
  const layOut = layoutFor([titles, ...rows, sums], columns - 2)
  const lineOf = (cells: string[], mark: string, style?: Style): Line => [
    { text: `${mark} ${layOut(cells, (text) => text)}`, style },
  ]
  return [
    lineOf(titles, ' ', 'bold'),
    ...rows.map((row, at) =>
      lineOf(row, at === selected ? '>' : ' ', databases[at]!.outage ? 'red' : at === selected ? 'bold' : undefined),
    ),
    lineOf(sums, ' ', 'bold'),
    [],
    ...problemLines(databases, columns),
  ]
}

function stateOf({ overview, outage }: WatchedDatabase): string {
  if (outage) return `down ${age(outage.forMs)}`
  return overview ? 'up' : 'connecting'
}

/** Returns the totals of these overviews, as cells. */
function countsOf(overviews: readonly Overview[]): string[] {
  if (overviews.length === 0) return titles.slice(2).map(() => '-')
  const queues = overviews.flatMap((one) => one.queues)
  const sum = (of: (one: Overview) => number) => String(overviews.reduce((total, one) => total + of(one), 0))
  const sumOf = (of: (queue: OverviewQueue) => number) => queues.reduce((total, queue) => total + of(queue), 0)
  // An overview lists at most 200 queues.
  const areMore = overviews.some(({ counts, queues }) => counts.queues > queues.length)
  const isReadyMore = areMore || queues.some(({ readyIs }) => readyIs !== 'counted')
  const oldestMs = Math.max(-1, ...queues.map(({ oldestMs }) => oldestMs ?? -1))
  return [
    sum(({ counts }) => counts.instances),
    sum(({ counts }) => counts.gone),
    sum(({ counts }) => counts.queues),
    `${sumOf(({ ready }) => ready)}${isReadyMore ? '+' : ''}`,
    `${sumOf(({ running }) => running)}${areMore ? '+' : ''}`,
    String(Math.round(sumOf(({ donePerSecond }) => donePerSecond) * 10) / 10),
    age(oldestMs < 0 ? null : oldestMs),
    sum(({ trouble }) => trouble.length),
  ]
}

function problemLines(databases: readonly WatchedDatabase[], columns: number): Line[] {
  const rows = databases
    .flatMap(({ name, overview }) => (overview ? problems.rows(overview).map((row) => ({ name, row })) : []))
    .sort((one, other) => Number(other.row.cells[0]!.order) - Number(one.row.cells[0]!.order))
    .slice(0, maxProblems)
  if (rows.length === 0) return [[{ text: '  PROBLEMS none', style: 'bold' }]]
  const heads = ['DATABASE', ...problems.columns.map(({ title }) => title)]
  const shown = [0, 1, 2, 4, 6]
  const cells = [heads, ...rows.map(({ name, row }) => [name ?? '', ...row.cells.map(({ text }) => text)])].map(
    (line) => shown.map((at) => line[at]!),
  )
  const layOut = layoutFor(cells, columns - 2)
  return cells.map(
    (line, at): Line => [{ text: `  ${layOut(line, (text) => text)}`, style: at === 0 ? 'bold' : undefined }],
  )
}
