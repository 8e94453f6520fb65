// From what somebody looks at, and how large the terminal is, to the lines on it. Pure: it knows no terminal.
import { formatDuration } from '../../base/index.js'
import { displayWidth, gap, shorten, widthsFor, wrap } from '../table.js'
import type { Panel, PanelRow, Style } from './panel.js'
import { panels } from './panels.js'
import { placeOf, rowsOf, type View } from './view.js'

export interface Span {
  readonly text: string
  readonly style?: Style | undefined
}

/** One line of the screen, never wider than it. */
export type Line = readonly Span[]

export interface Size {
  readonly columns: number
  readonly rows: number
}

/** From here on panels stand side by side. */
const minTwoColumnWidth = 130
const separator = ' │ '
/** What is held, beside what is done. */
const panelColumns = [
  [0, 1, 2],
  [3, 4, 5],
] as const
/** Before each row: whether it is the one that the keys are for; before each title: its number. */
const gutter = 2
/** A panel has at least its title and so many rows, as long as it has them. */
const minRows = 2
/** Texts are not cut below this to keep a column that could be spared. */
const readableWidth = 20

/** The whole screen: exactly so many lines. */
export function layOut(view: View, size: Size): Line[] {
  const room = Math.max(0, size.rows - 2)
  const body =
    view.shows === 'help'
      ? help
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

function header({ overview, address, intervalMs, isPaused }: View): Line {
  return [
    { text: 'holdfast top', style: 'bold' },
    { text: `  ${overview.at.toISOString().slice(11, 19)} UTC  ` },
    isPaused ? { text: 'paused', style: 'yellow' } : { text: `every ${formatDuration(intervalMs)}`, style: 'dim' },
    { text: `  ${address}  PostgreSQL ${overview.server.split(' ')[0]}` },
  ]
}

function footer({ outage, isTyping, panelStates, focus, shows, isZoomed }: View): Line {
  if (outage) {
    const since = outage.forMs < 1_000 ? '' : ` for ${formatDuration(Math.floor(outage.forMs / 1_000) * 1_000)}`
    return [{ text: ` No answer${since}, still trying: ${outage.reason} `, style: 'reverse' }]
  }
  const { filter } = panelStates[focus]!
  if (isTyping)
    return [{ text: `filter ${panels[focus]!.title.toLowerCase()}: ${filter}_  enter keeps it, esc drops it` }]
  if (shows === 'help') return [{ text: 'q back', style: 'dim' }]
  if (shows === 'details') return [{ text: 'q back  up/down another row', style: 'dim' }]
  const filterText = filter === '' ? '' : `filtered by "${filter}", esc drops it  `
  const zoom = isZoomed ? 'z back' : 'z zoom'
  return [
    { text: filterText, style: 'yellow' },
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
  // Too low for all titles: then at least what the keys are for.
  if (rows === undefined) return panelLines(view, at < 0 ? shown[0]! : view.focus, room, columns)
  return shown.flatMap((panel, place) => panelLines(view, panel, rows[place]! + 1, columns))
}

/** Divides rows among panels: a few for each, then what the focused one wants, then one after the other. Undefined: too few. */
function divideRows(rows: number, wanted: readonly number[], focused: number): number[] | undefined {
  if (rows < 0) return undefined
  let left = rows
  const rowsOfPanel = wanted.map(() => 0)
  const grow = (panel: number, upto: number) => {
    const more = Math.max(0, Math.min(left, upto - rowsOfPanel[panel]!))
    rowsOfPanel[panel]! += more
    left -= more
    return more > 0
  }
  const order = [...wanted.keys()].sort((a, b) => Number(b === focused) - Number(a === focused))
  for (let height = 1; height <= minRows; height++)
    for (const panel of order) grow(panel, Math.min(height, wanted[panel]!))
  // Half of what is left, so that the others do not vanish beside a long list.
  if (focused >= 0) grow(focused, Math.min(wanted[focused]!, rowsOfPanel[focused]! + Math.ceil(left / 2)))
  let hasGrown = true
  while (left > 0 && hasGrown) {
    hasGrown = false
    for (const panel of order) hasGrown = grow(panel, Math.min(wanted[panel]!, rowsOfPanel[panel]! + 1)) || hasGrown
  }
  return rowsOfPanel
}

/** A title with the names of the columns, and rows below it: at most so many lines. */
function panelLines(view: View, at: number, lines: number, columns: number): Line[] {
  if (lines < 1) return []
  const panel = panels[at]!
  const panelState = view.panelStates[at]!
  const isFocused = view.focus === at
  const all = rowsOf(view, at)
  const room = lines - 1
  const place = placeOf(panelState, all)
  // Around the row where somebody is.
  const first = isFocused ? Math.max(0, Math.min(place - Math.floor(room / 2), all.length - room)) : 0
  const rows = all.slice(first, first + room)
  const total = panelState.filter === '' ? Math.max(panel.total(view.overview), all.length) : all.length
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

/** Lays out the titles and these of the rows, in the columns for which there is room. */
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

/** Which columns are shown. A namespace that is the same everywhere tells nothing; what can be spared goes first. */
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
  const found = panel.rows(view.overview).find(({ id }) => id === row?.id)
  const title: Line = [{ text: ` ${panel.title}`, style: 'bold' }]
  if (found === undefined) return [title, [], [{ text: '  It is no longer among what is listed.' }]]
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
  '  1-6, tab, left, right   the panel that the other keys are for',
  '  up, down, pages, g, G   a row of it',
  '  enter                   all about the row, and the command that shows more',
  '  z                       the panel alone, or all of them again',
  '  s, S                    sort by the next column; turn the order round',
  '  /                       only rows with a text in them; esc drops it',
  '  p or space              pause, and go on',
  '  r                       look again now',
  '  + -                     look less often, more often',
  '  ctrl-l, ctrl-z          draw anew; go to the background, and fg comes back',
  '  q                       leave',
  '',
  ' Numbers',
  '',
  '  ~12k   by the statistics of the planner      1000+   counted up to there',
  '  DONE/S, WAITED and TOOK are of jobs that ended in the last minute, or of the',
  '  latest thousands where more did: rate, and median/99th percentile of the time',
  '  before their claim and after it. TROUBLE is of the last hour.',
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
