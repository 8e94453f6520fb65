import { emitKeypressEvents } from 'node:readline'
import type { ReadStream, WriteStream } from 'node:tty'
import { type Size, textOf } from './layout.js'
import type { Line, Style } from './panel.js'
import type { Key } from './view.js'

// Switches to the alternate screen, hides the cursor and disables line wrapping.
const enterScreen = '\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J'
const leaveScreen = '\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l'
const plain = '\x1b[0m'
const codes: Record<Style, number> = { bold: 1, dim: 2, reverse: 7, red: 31, yellow: 33, green: 32 }
const colours: readonly Style[] = ['red', 'yellow', 'green']
/** Maximum length of an unchanged gap that is rewritten, which is cheaper than moving the cursor. */
const maxRewrittenGap = 6
/** Matches characters that occupy one column on every terminal and do not change the writing direction. */
const singleWidth = /^[\x20-\x7e│…↑↓]*$/

interface ScreenCell {
  readonly sign: string
  readonly style: string
}

interface ScreenEvents {
  key(key: Key): void
  /** Called when the whole screen must be redrawn, because its size has changed or it was restored. */
  changed(): void
  /** Called when the terminal has been closed. */
  closed(): void
}

/** The terminal in full-screen mode. `draw` writes only the parts of the screen that have changed. */
export class Screen {
  readonly #input: ReadStream
  readonly #output: WriteStream
  readonly #hasColours: boolean
  readonly #events: ScreenEvents
  #shown: readonly Line[] = []
  #isOpen = false
  /** True from `open` to `close`, even while the process is suspended. */
  #isTaken = false

  constructor(input: ReadStream, output: WriteStream, hasColours: boolean, events: ScreenEvents) {
    this.#input = input
    this.#output = output
    this.#hasColours = hasColours
    this.#events = events
    emitKeypressEvents(input)
    input.on('keypress', (text: string | undefined, key: Key) => {
      events.key({
        ...key,
        text: text === undefined || (text.length !== 1 && [...text].length !== 1) ? undefined : text,
      })
    })
    input.on('end', () => events.closed())
    input.on('error', () => events.closed())
    output.on('resize', () => this.#redraw())
    process.on('SIGTSTP', () => this.#stop())
    process.on('SIGCONT', () => this.#resume())
    // Also restores the terminal after an unexpected error, before Node.js prints the error.
    process.on('uncaughtExceptionMonitor', () => this.close())
    process.on('exit', () => this.close())
  }

  get size(): Size {
    return { columns: this.#output.columns || 80, rows: this.#output.rows || 24 }
  }

  open(): void {
    this.#isTaken = true
    this.#isOpen = true
    this.#shown = []
    this.#input.setRawMode(true)
    this.#input.resume()
    this.#output.write(enterScreen)
  }

  /** Restores the terminal. */
  close(): void {
    this.#isTaken = false
    this.#restore()
  }

  draw(lines: readonly Line[]): void {
    if (!this.#isOpen) return
    const changes = lines.map((line, row) => this.#change(this.#shown[row] ?? [], line, row)).join('')
    this.#shown = lines
    if (changes !== '') this.#output.write(changes)
  }

  /** Suspends the process group, like Ctrl-Z in cooked mode. The shell command `fg` resumes the process group. */
  suspend(): void {
    process.kill(0, 'SIGTSTP')
  }

  /** Redraws everything, because a different program has written on the screen. */
  clear(): void {
    if (this.#isOpen) this.#redraw()
  }

  #stop(): void {
    this.#restore()
    process.kill(process.pid, 'SIGSTOP')
  }

  #resume(): void {
    if (!this.#isTaken) return
    // Another program may have changed the terminal's mode, even without a SIGTSTP to this process.
    this.#restore()
    this.open()
    this.#events.changed()
  }

  #restore(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#output.write(leaveScreen)
    this.#input.setRawMode(false)
    this.#input.pause()
  }

  #redraw(): void {
    if (!this.#isOpen) return
    this.#shown = []
    this.#output.write(`${plain}\x1b[2J`)
    this.#events.changed()
  }

  /** Returns the terminal output that changes the old line into the new line. */
  #change(before: Line, after: Line, row: number): string {
    const [old, now] = [textOf(before), textOf(after)]
    const from = this.#cellsOf(before)
    const to = this.#cellsOf(after)
    const isSame = (at: number) => from[at]?.sign === to[at]?.sign && from[at]?.style === to[at]?.style
    if (from.length === to.length && to.every((_, at) => isSame(at))) return ''
    // Erases before writing, because the cursor stays on the last column after writing that column.
    if (!singleWidth.test(old) || !singleWidth.test(now)) return `${goTo(row, 0)}\x1b[K${writeCells(to)}`
    const changes: string[] = []
    for (let at = 0; at < to.length; at++) {
      if (isSame(at)) continue
      let end = at + 1
      for (let next = end; next < to.length && next - end < maxRewrittenGap; next++) if (!isSame(next)) end = next + 1
      changes.push(goTo(row, at) + writeCells(to.slice(at, end)))
      at = end
    }
    if (from.length > to.length) changes.push(`${goTo(row, to.length)}\x1b[K`)
    return changes.join('')
  }

  #cellsOf(line: Line): ScreenCell[] {
    const places = line.flatMap(({ text, style }) => [...text].map((sign) => ({ sign, style: this.#codeOf(style) })))
    while (places.at(-1)?.sign === ' ' && places.at(-1)?.style === '') places.pop()
    return places
  }

  #codeOf(style: Style | undefined): string {
    if (style === undefined || (!this.#hasColours && colours.includes(style))) return ''
    return `\x1b[${codes[style]}m`
  }
}

function goTo(row: number, column: number): string {
  return `\x1b[${row + 1};${column + 1}H`
}

function writeCells(places: readonly ScreenCell[]): string {
  let text = ''
  let style = ''
  for (const place of places) {
    if (place.style !== style) text += (style === '' ? '' : plain) + place.style
    style = place.style
    text += place.sign
  }
  return style === '' ? text : text + plain
}
