import type { Overview } from '../../observe/index.js'
import type { PanelRow } from './panel.js'
import { panels } from './panels.js'

/** A database that the command watches. */
export interface WatchedDatabase {
  /** Null if the only database has no name. */
  readonly name: string | null
  readonly address: string
  /** Last overview. Undefined until the database has responded. */
  readonly overview: Overview | undefined
  /** Reason and duration of an outage. Undefined while the database responds. */
  readonly outage: { readonly reason: string; readonly forMs: number } | undefined
}

/** State of the screen. */
export interface View {
  readonly databases: readonly WatchedDatabase[]
  /** Index of the database that is shown, or that is selected in the list of all databases. */
  readonly at: number
  readonly schema: string
  readonly intervalMs: number
  readonly isPaused: boolean
  /** Index of the selected panel. */
  readonly focus: number
  /** Whether only the selected panel is shown. */
  readonly isZoomed: boolean
  /** `databases`: the list of all databases, if there are several. */
  readonly shows: 'databases' | 'panels' | 'details' | 'help'
  /** View that the screen shows after the help. */
  readonly behindHelp: 'databases' | 'panels'
  /** Whether the user is typing a filter. */
  readonly isTyping: boolean
  readonly panelStates: readonly PanelState[]
}

export interface PanelState {
  /** Selected row, identified by its ID. If that ID is no longer listed, `at` is the index of the selected row. */
  readonly row: { readonly id: string; readonly at: number } | undefined
  /** Index of the column to sort by. Undefined: the rows keep the order of the overview. */
  readonly sortedBy: number | undefined
  readonly isReversed: boolean
  readonly filter: string
}

export interface Key {
  /** Name of the key in node:readline, such as `tab`, `up` or `z`. */
  readonly name?: string | undefined
  readonly ctrl?: boolean | undefined
  readonly shift?: boolean | undefined
  /** The typed character, if the key has one. */
  readonly text?: string | undefined
}

/** Effect that a key has in addition to changing the view. */
type ViewRequest = 'quit' | 'suspend' | 'redraw' | 'refresh' | undefined

const intervalsMs = [250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000]
const pageRows = 10

export function firstView(databases: readonly WatchedDatabase[], schema: string, intervalMs: number): View {
  const shows = databases.length > 1 ? 'databases' : 'panels'
  return {
    databases,
    at: 0,
    schema,
    intervalMs,
    isPaused: false,
    focus: 0,
    isZoomed: false,
    shows,
    behindHelp: shows,
    isTyping: false,
    panelStates: panels.map(() => ({ row: undefined, sortedBy: undefined, isReversed: false, filter: '' })),
  }
}

/** Returns the database that is shown. */
export function shownDatabase({ databases, at }: View): WatchedDatabase {
  return databases[at]!
}

/** Returns a panel's filtered and sorted rows. */
export function rowsOf(view: View, panel: number): readonly PanelRow[] {
  const { filter, sortedBy, isReversed } = view.panelStates[panel]!
  const { overview } = shownDatabase(view)
  if (!overview) return []
  const wanted = filter.toLowerCase()
  const all = panels[panel]!.rows(overview)
  const rows =
    wanted === '' ? [...all] : all.filter(({ cells }) => cells.some(({ text }) => text.toLowerCase().includes(wanted)))
  if (sortedBy !== undefined) {
    const sign = isReversed ? -1 : 1
    rows.sort((a, b) => {
      const [one, other] = [a.cells[sortedBy]!.order, b.cells[sortedBy]!.order]
      if (one === null || other === null) return Number(one === null) - Number(other === null)
      const order = typeof one === 'number' ? Number(other) - one : one.localeCompare(String(other))
      return order * sign
    })
  }
  return rows
}

/** Returns the selected row's index. */
export function placeOf({ row }: PanelState, rows: readonly PanelRow[]): number {
  const at = rows.findIndex(({ id }) => id === row?.id)
  return at >= 0 ? at : Math.max(0, Math.min(row?.at ?? 0, rows.length - 1))
}

export function press(view: View, key: Key): { view: View; wish?: ViewRequest } {
  if (key.ctrl) return { view, wish: controlKey[key.name ?? ''] }
  if (view.isTyping) return { view: typeText(view, key) }
  if (key.name === 'q' && (view.shows === 'panels' || view.shows === 'databases')) return { view, wish: 'quit' }
  if (view.shows === 'help' && (key.text === '?' || isBack(key)))
    return { view: { ...view, shows: view.behindHelp }, wish: 'refresh' }
  if (key.text === '?') {
    const behindHelp = view.shows === 'databases' ? 'databases' : 'panels'
    return { view: { ...view, shows: 'help', behindHelp } }
  }
  if (view.shows === 'details' && isBack(key)) return { view: { ...view, shows: 'panels' } }
  if (key.text === '+' || key.text === '-') {
    return { view: { ...view, intervalMs: nextInterval(view.intervalMs, key.text === '+') }, wish: 'refresh' }
  }
  if (key.name === 'p' || key.name === 'space') return { view: { ...view, isPaused: !view.isPaused }, wish: 'refresh' }
  if (key.name === 'r' && !key.shift) return { view, wish: 'refresh' }
  if (view.shows === 'help') return { view }
  return view.databases.length > 1 ? moveToDatabase(view, key) : { view: moveTo(view, key) }
}

function isBack({ name }: Key): boolean {
  return ['q', 'escape', 'return', 'enter', 'backspace', 'left'].includes(name ?? '')
}

/** Handles the keys that select one of several databases. */
function moveToDatabase(view: View, key: Key): { view: View; wish?: ViewRequest } {
  const { at, databases, shows, panelStates, focus, isZoomed } = view
  const show = (to: number, shows: View['shows']): { view: View; wish: ViewRequest } => ({
    view: { ...view, at: to, shows },
    wish: 'refresh',
  })
  if (key.name === 'd') {
    const to = (at + (key.shift ? -1 : 1) + databases.length) % databases.length
    return show(to, shows === 'databases' ? 'databases' : 'panels')
  }
  if (shows === 'databases') {
    if (key.name === 'return' || key.name === 'enter') return show(at, 'panels')
    const step = steps[(key.shift ? key.text : key.name) ?? '']
    return step === undefined ? { view } : show(Math.max(0, Math.min(at + step, databases.length - 1)), 'databases')
  }
  const isUnchanged = panelStates[focus]!.filter === '' && !isZoomed
  if (key.name === 'a' || (key.name === 'escape' && shows === 'panels' && isUnchanged)) return show(at, 'databases')
  return { view: moveTo(view, key) }
}

const controlKey: Record<string, ViewRequest> = { c: 'quit', z: 'suspend', l: 'redraw' }

function nextInterval(nowMs: number, isLonger: boolean): number {
  const others = isLonger ? intervalsMs.filter((ms) => ms > nowMs) : intervalsMs.filter((ms) => ms < nowMs).reverse()
  return others[0] ?? nowMs
}

/** Number of rows by which a key moves the selection. */
const steps: Readonly<Record<string, number>> = {
  ...{ up: -1, k: -1, pageup: -pageRows, home: Number.NEGATIVE_INFINITY, g: Number.NEGATIVE_INFINITY },
  ...{ down: 1, j: 1, pagedown: pageRows, end: Number.POSITIVE_INFINITY, G: Number.POSITIVE_INFINITY },
}

function moveTo(view: View, key: Key): View {
  const { focus, panelStates, shows } = view
  const state = panelStates[focus]!
  const rows = rowsOf(view, focus)
  const goTo = (at: number) => {
    const place = Math.max(0, Math.min(at, rows.length - 1))
    return withPanelState(view, { row: rows[place] && { id: rows[place].id, at: place } })
  }
  const at = placeOf(state, rows)
  // A letter with Shift is a different key, and Tab with Shift moves backwards.
  const pressed = key.shift && key.name !== 'tab' ? key.text : key.name
  const step = steps[pressed ?? '']
  if (step !== undefined) return goTo(at + step)
  if (shows === 'details') return view
  const focused = (panel: number): View => ({ ...view, focus: (panel + panels.length) % panels.length })
  switch (pressed) {
    case 'tab':
      return focused(focus + (key.shift ? -1 : 1))
    case 'right':
      return focused(focus + 1)
    case 'left':
      return focused(focus - 1)
    case 'return':
    case 'enter': {
      // Selects the row by its id, so that the details follow the row.
      return rows.length > 0 ? { ...goTo(at), shows: 'details' } : view
    }
    case 'z':
      return { ...view, isZoomed: !view.isZoomed }
    case 's': {
      const next = state.sortedBy === undefined ? 0 : state.sortedBy + 1
      return withPanelState(view, {
        sortedBy: next < panels[focus]!.columns.length ? next : undefined,
        isReversed: false,
      })
    }
    case 'S':
      return withPanelState(view, { isReversed: state.sortedBy !== undefined && !state.isReversed })
    case 'escape':
      if (state.filter !== '') return withPanelState(view, { filter: '' })
      return { ...view, isZoomed: false }
  }
  if (key.text === '/') return { ...view, isTyping: true }
  const panel = Number(key.text) - 1
  return panel in panels ? focused(panel) : view
}

function typeText(view: View, { name, text }: Key): View {
  const { filter } = view.panelStates[view.focus]!
  if (name === 'return' || name === 'enter') return { ...view, isTyping: false }
  if (name === 'escape') return { ...withPanelState(view, { filter: '' }), isTyping: false }
  if (name === 'backspace') return withPanelState(view, { filter: [...filter].slice(0, -1).join('') })
  return text !== undefined && !/\p{Cc}/u.test(text) ? withPanelState(view, { filter: filter + text }) : view
}

function withPanelState(view: View, change: Partial<PanelState>): View {
  return {
    ...view,
    panelStates: view.panelStates.map((state, at) => (at === view.focus ? { ...state, ...change } : state)),
  }
}
