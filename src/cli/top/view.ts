import type { Overview } from '../../observe/index.js'
import type { PanelRow } from './panel.js'
import { panels } from './panels.js'

/** State of the screen. */
export interface View {
  readonly overview: Overview
  /** Address of the database. */
  readonly address: string
  readonly schema: string
  /** Reason and duration of an outage. Undefined while the database responds. */
  readonly outage: { readonly reason: string; readonly forMs: number } | undefined
  readonly intervalMs: number
  readonly isPaused: boolean
  /** Index of the selected panel. */
  readonly focus: number
  /** Whether only the selected panel is shown. */
  readonly isZoomed: boolean
  readonly shows: 'panels' | 'details' | 'help'
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

export function firstView(overview: Overview, address: string, schema: string, intervalMs: number): View {
  return {
    overview,
    address,
    schema,
    outage: undefined,
    intervalMs,
    isPaused: false,
    focus: 0,
    isZoomed: false,
    shows: 'panels',
    isTyping: false,
    panelStates: panels.map(() => ({ row: undefined, sortedBy: undefined, isReversed: false, filter: '' })),
  }
}

/** Returns a panel's filtered and sorted rows. */
export function rowsOf({ overview, panelStates }: View, panel: number): readonly PanelRow[] {
  const { filter, sortedBy, isReversed } = panelStates[panel]!
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
  if (key.name === 'q' && view.shows === 'panels') return { view, wish: 'quit' }
  if (key.text === '?') return { view: { ...view, shows: view.shows === 'help' ? 'panels' : 'help' } }
  if (view.shows !== 'panels' && ['q', 'escape', 'return', 'enter', 'backspace', 'left'].includes(key.name ?? '')) {
    return { view: { ...view, shows: 'panels' } }
  }
  if (key.text === '+' || key.text === '-') {
    return { view: { ...view, intervalMs: nextInterval(view.intervalMs, key.text === '+') }, wish: 'refresh' }
  }
  if (key.name === 'p' || key.name === 'space') return { view: { ...view, isPaused: !view.isPaused }, wish: 'refresh' }
  if (key.name === 'r' && !key.shift) return { view, wish: 'refresh' }
  return { view: view.shows === 'help' ? view : moveTo(view, key) }
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
