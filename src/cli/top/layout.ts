// Computes the screen's lines from the view and the terminal's size. This file has no side effects.
import { formatDuration } from '../../base/index.js'
import { displayWidth, gap, shorten, widthsFor, wrap } from '../table.js'
import { databaseLines } from './databases.js'
import type { Line, Panel, PanelRow, Span, Style } from './panel.js'
import { panels } from './panels.js'
import { placeOf, rowsOf, shownDatabase, type View } from './view.js'

export interface Size {
  readonly columns: number
  readonly rows: number
}

/** Minimum terminal width for panels side by side. */
const minTwoColumnWidth = 130
const separator = ' │ '
const panelColumns = [
  [0, 1, 2],
  [3, 4, 5],
] as const
/** Width of the marker before a row, and of the number before a title. */
const gutter = 2
/** Minimum number of rows to show in a panel that has at least that many rows. */
const minRows = 2
/** Minimum width of text columns. Before text columns become narrower than this, other columns are hidden. */
const readableWidth = 20

/** Returns the whole screen's lines. */
export function layOut(view: View, size: Size): Line[] {
  const room = Math.max(0, size.rows - 2)
  const body =
    view.shows === 'help'
      ? help
      : view.shows === 'databases'
        ? databaseLines(view.databases, size.columns, view.at)
        : view.shows === 'details'
          ? details(view, size.columns)
          : view.isZoomed
            ? panelLines(view, view.focus, room, size.columns)
            : allPanels(view, room, size.columns)
  const lines = [header(view), ...fillRows(body, room), footer(view)]
  return lines.slice(0, size.rows).map((line) => cutLine(line, size.columns))
}

export function textOf(line: Line): string {
  return line.map(({ text }) => text).join('')
}

function fillRows(lines: readonly Line[], rows: number): Line[] {
  return Array.from({ length: rows }, (_, at) => lines[at] ?? [])
}

function header(view: View): Line {
  const { databases, at, intervalMs, isPaused, shows } = view
  const { name, address, overview } = shownDatabase(view)
  const pace: Span = isPaused
    ? { text: 'paused', style: 'yellow' }
    : { text: `every ${formatDuration(intervalMs)}`, style: 'dim' }
  const title: Span = { text: 'holdfast top', style: 'bold' }
  if (shows === 'databases') return [title, { text: `  ${databases.length} databases  ` }, pace]
  return [
    title,
    ...(databases.length > 1 ? [{ text: `  ${name} (${at + 1}/${databases.length})`, style: 'bold' } as const] : []),
    { text: overview ? `  ${overview.at.toISOString().slice(11, 19)} UTC  ` : '  ' },
    pace,
    { text: `  ${address}${overview ? `  PostgreSQL ${overview.server.split(' ')[0]}` : ''}` },
  ]
}

function footer(view: View): Line {
  const { isTyping, panelStates, focus, shows, isZoomed, databases } = view
  const { outage } = shownDatabase(view)
  if (shows === 'databases') {
    if (outage) return [{ text: ` No response from ${shownDatabase(view).name}: ${outage.reason} `, style: 'reverse' }]
    return [{ text: '? help  q quit  up/down select  enter show the database  p pause', style: 'dim' }]
  }
  if (outage) {
    const since = outage.forMs < 1_000 ? '' : ` for ${formatDuration(Math.floor(outage.forMs / 1_000) * 1_000)}`
    return [{ text: ` No response${since}, still trying: ${outage.reason} `, style: 'reverse' }]
  }
  const { filter } = panelStates[focus]!
  if (isTyping) return [{ text: `filter ${panels[focus]!.title.toLowerCase()}: ${filter}_  enter applies, esc clears` }]
  if (shows === 'help') return [{ text: 'q back', style: 'dim' }]
  if (shows === 'details') return [{ text: 'q back  up/down another row', style: 'dim' }]
  const filterText = filter === '' ? '' : `filtered by "${filter}", esc clears  `
  const zoom = isZoomed ? 'z back' : 'z zoom'
  return [
    { text: filterText, style: 'yellow' },
    { text: databases.length > 1 ? 'd next database  a all  ' : '', style: 'dim' },
    { text: `? help  q quit  1-6 panel  enter details  ${zoom}  s sort  / filter  p pause`, style: 'dim' },
  ]
}

function allPanels(view: View, room: number, columns: number): Line[] {
  if (columns < minTwoColumnWidth) return stackPanels(view, panels.keys(), room, columns)
  const left = Math.floor((columns - separator.length) / 2)
  const right = columns - separator.length - left
  const [one, other] = [
    fillRows(stackPanels(view, panelColumns[0], room, left), room),
    fillRows(stackPanels(view, panelColumns[1], room, right), room),
  ]
  return one.map((line, at) => [...padLine(line, left), { text: separator, style: 'dim' }, ...other[at]!])
}

function stackPanels(view: View, which: Iterable<number>, room: number, columns: number): Line[] {
  const shown = [...which]
  const wantedRows = shown.map((panel) => rowsOf(view, panel).length)
  const at = shown.indexOf(view.focus)
  const rows = divideRows(room - shown.length, wantedRows, at)
  // If the screen has too few lines for all titles, only the focused panel is shown.
  if (rows === undefined) return panelLines(view, at < 0 ? shown[0]! : view.focus, room, columns)
  return shown.flatMap((panel, place) => panelLines(view, panel, rows[place]! + 1, columns))
}

/**
 * Divides the rows among the panels: first the minimum for each panel, then more rows for the focused panel, then the
 * rest for the other panels. Returns undefined if there are too few rows.
 */
function divideRows(rows: number, wanted: readonly number[], focused: number): number[] | undefined {
  if (rows < 0) return undefined
  let left = rows
  const rowsOfPanel = wanted.map(() => 0)
  const grow = (panel: number, maxRows: number) => {
    const more = Math.max(0, Math.min(left, maxRows - rowsOfPanel[panel]!))
    rowsOfPanel[panel]! += more
    left -= more
    return more > 0
  }
  const order = [...wanted.keys()].sort((a, b) => Number(b === focused) - Number(a === focused))
  for (let height = 1; height <= minRows; height++)
    for (const panel of order) grow(panel, Math.min(height, wanted[panel]!))
  // The focused panel gets at most half of the remaining rows, so that the other panels also get some.
  if (focused >= 0) grow(focused, Math.min(wanted[focused]!, rowsOfPanel[focused]! + Math.ceil(left / 2)))
  let hasGrown = true
  while (left > 0 && hasGrown) {
    hasGrown = false
    for (const panel of order) hasGrown = grow(panel, Math.min(wanted[panel]!, rowsOfPanel[panel]! + 1)) || hasGrown
  }
  return rowsOfPanel
}

/** Returns a panel's title and rows in at most `lines` lines. */
function panelLines(view: View, at: number, lines: number, columns: number): Line[] {
  if (lines < 1) return []
  const panel = panels[at]!
  const panelState = view.panelStates[at]!
  const isFocused = view.focus === at
  const all = rowsOf(view, at)
  const room = lines - 1
  const place = placeOf(panelState, all)
  // Scrolls the panel so that the selected row is visible.
  const first = isFocused ? Math.max(0, Math.min(place - Math.floor(room / 2), all.length - room)) : 0
  const rows = all.slice(first, first + room)
  const { overview } = shownDatabase(view)
  const total = panelState.filter === '' && overview ? Math.max(panel.total(overview), all.length) : all.length
  const shown = rows.length < total && rows.length > 0 ? `${first + 1}-${first + rows.length}/${total}` : String(total)
  const title = `${panel.title} ${total === 0 ? 'none' : shown}`
  const titles = panel.columns.map((column, place) => {
    const mark = place === panelState.sortedBy ? (panelState.isReversed ? '↑' : '↓') : ''
    return (place === 0 ? title : column.title) + mark
  })
  const { heading, lines: found } = table(panel, all, rows, titles, columns - gutter)
  return [
    styleLine(
      padLine([{ text: `${at + 1} ` }, ...(total === 0 ? [{ text: title }] : heading)], columns),
      isFocused ? 'reverse' : 'bold',
    ),
    ...found.map((line, row): Line => {
      const isHere = isFocused && first + row === place
      const marked: Line = [{ text: isHere ? '> ' : '  ' }, ...line]
      return isHere ? styleLine(marked, 'bold') : marked
    }),
  ]
}

function styleLine(line: Line, style: Style): Line {
  return style === 'bold'
    ? line.map((span) => ({ ...span, style: span.style ?? style }))
    : [{ text: textOf(line), style }]
}

/** Lays out the titles and the rows with the columns that fit. */
function table(
  panel: Panel,
  all: readonly PanelRow[],
  rows: readonly PanelRow[],
  titles: readonly string[],
  room: number,
): { heading: Line; lines: Line[] } {
  const naturalWidths = panel.columns.map(({ least }, at) =>
    Math.max(least, displayWidth(titles[at]!), ...all.map(({ cells }) => displayWidth(cells[at]!.text))),
  )
  const shownColumns = fittingColumns(panel, all, naturalWidths, room)
  const widths = widthsFor([shownColumns.map((at) => ' '.repeat(naturalWidths[at]!))], room)
  const lineOf = (cells: readonly { readonly text: string; readonly style?: Style | undefined }[]): Line =>
    shownColumns.flatMap((at, place) => {
      const { text, style } = cells[at]!
      const fits = shorten(text, widths[place]!)
      const free = ' '.repeat(Math.max(0, widths[place]! - displayWidth(fits)))
      const rest = place === shownColumns.length - 1 ? '' : gap
      return panel.columns[at]!.isNumber
        ? [{ text: free }, { text: fits, style }, { text: rest }]
        : [{ text: fits, style }, { text: free + rest }]
    })
  return { heading: lineOf(titles.map((text) => ({ text }))), lines: rows.map(({ cells }) => lineOf(cells)) }
}

/** Selects the columns to show. Hides a namespace that is the same in all rows, then the least important columns. */
function fittingColumns(
  panel: Panel,
  all: readonly PanelRow[],
  naturalWidths: readonly number[],
  room: number,
): number[] {
  let shownColumns = [...panel.columns.keys()].filter(
    (at) => panel.columns[at]!.title !== 'NAMESPACE' || new Set(all.map(({ cells }) => cells[at]!.text)).size > 1,
  )
  const neededWidth = () =>
    shownColumns.reduce(
      (sum, at) => sum + Math.min(Math.max(readableWidth, panel.columns[at]!.least), naturalWidths[at]!) + gap.length,
      -gap.length,
    )
  while (neededWidth() > room) {
    const maxSpare = Math.max(...shownColumns.map((at) => panel.columns[at]!.spare))
    if (maxSpare === 0) break
    shownColumns = shownColumns.filter((at) => panel.columns[at]!.spare !== maxSpare)
  }
  return shownColumns
}

function details(view: View, columns: number): Line[] {
  const panel = panels[view.focus]!
  const { row } = view.panelStates[view.focus]!
  const { overview } = shownDatabase(view)
  const found = overview && panel.rows(overview).find(({ id }) => id === row?.id)
  const title: Line = [{ text: ` ${panel.title}`, style: 'bold' }]
  if (found === undefined) return [title, [], [{ text: '  This row is no longer listed.' }]]
  const facts = found.facts(view.schema)
  const width = Math.max(...facts.map(([field]) => field.length))
  return [
    title,
    [],
    ...facts.flatMap(([field, value]) =>
      wrap(value, columns - width - 4).map(
        (text, at): Line => [{ text: `  ${(at === 0 ? field : '').padEnd(width)}  `, style: 'dim' }, { text }],
      ),
    ),
  ]
}

const help: readonly Line[] = [
  ' Keys',
  '',
  '  1-6, tab, left, right   select a panel',
  '  up, down, pages, g, G   select a row of the panel',
  '  enter                   show details of the row, and a command for more information',
  '  z                       show only this panel, or all panels',
  '  s, S                    sort by the next column; reverse the order',
  '  /                       show only rows that contain a text; esc clears the filter',
  '  p or space              pause, resume',
  '  d, D                    next, previous database (with several databases)',
  '  a                       list all databases (with several databases)',
  '  r                       refresh now',
  '  + -                     refresh less often, more often',
  '  ctrl-l, ctrl-z          redraw; suspend (fg continues)',
  '  q                       quit',
  '',
  ' Numbers',
  '',
  '  ~12k   estimated from a sample of numbers    1000+   counting stopped at 1000',
  '  DONE/S, WAITED and TOOK cover the jobs that ended in the last minute.',
  '  For busy queues, only the last few thousand jobs count. PROBLEMS covers one hour.',
  '  WAITED is the time before the claim, TOOK the time after it (median/p99).',
].map((text) => [{ text, style: /^ \w/.test(text) ? 'bold' : undefined }])

function padLine(line: Line, columns: number): Line {
  const free = columns - displayWidth(textOf(line))
  return free > 0 ? [...line, { text: ' '.repeat(free) }] : line
}

function cutLine(line: Line, columns: number): Line {
  const spans: Span[] = []
  let left = columns
  for (const { text, style } of line) {
    if (left <= 0) break
    const fits = shorten(text, left)
    spans.push({ text: fits, style })
    left -= displayWidth(fits)
  }
  return spans
}
