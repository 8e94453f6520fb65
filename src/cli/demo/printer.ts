import type { DemoEvent, DemoEventKind, DemoReporter } from '../../demo/index.js'
import type { DemoLine } from '../documents.js'
import { type Colour, paint, write } from '../output.js'
import { Progress } from '../progress.js'
import type { Settings } from '../settings.js'
import { wrap } from '../table.js'

const colours: Partial<Record<DemoEventKind, Colour>> = {
  'taken-over': 'yellow',
  without: 'red',
  died: 'red',
  proof: 'green',
  work: 'green',
  violation: 'red',
}

/**
 * Events that only `--jsonl` prints. They include errors, because errors are expected when processes are killed or
 * frozen.
 */
const omitted: readonly DemoEventKind[] = ['trouble', 'tick', 'report', 'replaced']
const shownWhenQuiet: readonly DemoEventKind[] = ['proof', 'violation', 'died', 'ended', 'work', 'without']

const timeWidth = 8
const titleWidth = 16
const maxWidth = 100

/** Prints the demo's events as text or as JSON. */
export class DemoPrinter implements DemoReporter, Disposable {
  readonly #settings: Settings
  readonly #startedAt = performance.now()
  readonly #pending: Progress

  constructor(settings: Settings) {
    this.#settings = settings
    this.#pending = new Progress(settings)
  }

  get seconds(): number {
    return this.#secondsAt(performance.now())
  }

  #secondsAt(now: number): number {
    return Math.round((now - this.#startedAt) / 100) / 10
  }

  /** Prints the first lines. With `--jsonl`, the first line also contains the addresses. */
  start(text: string, facts: readonly (readonly [string, string])[], urls: NonNullable<DemoLine['urls']>): void {
    if (this.#settings.flag('jsonl')) this.#printJson({ event: 'started', title: 'Holdfast demo', text }, urls)
    if (this.#settings.flag('json') || this.#settings.flag('jsonl')) return
    const room = Math.min(process.stdout.columns || 80, maxWidth)
    const width = Math.max(...facts.map(([label]) => label.length))
    write([
      ...wrap(`Holdfast demo: ${text}`, room),
      '',
      ...facts.flatMap(([label, value]) =>
        wrap(value, room - width - 4).map(
          (line, at) => `  ${paint(this.#settings, (at === 0 ? label : '').padEnd(width), 'dim')}  ${line}`,
        ),
      ),
      '',
    ])
  }

  report(entry: DemoEvent): void {
    const { event, title, text } = entry
    if (this.#settings.flag('jsonl')) this.#printJson(entry, null)
    if (this.#settings.flag('json') || this.#settings.flag('jsonl')) return
    if (omitted.includes(event) || (this.#settings.flag('quiet') && !shownWhenQuiet.includes(event))) return
    // Each killed or frozen process gets one line, which is printed when its work has been taken over.
    if (event === 'killed' || event === 'frozen') {
      this.#pending.show(`${this.#timeOf(entry)}${title.padEnd(titleWidth)} ${text} …`)
    } else this.#print(entry)
  }

  /** Prints text as it is, after the last event. */
  end(text: string): void {
    if (!this.#settings.flag('json') && !this.#settings.flag('jsonl') && !this.#settings.flag('quiet'))
      write(['', text])
  }

  [Symbol.dispose](): void {
    this.#pending[Symbol.dispose]()
  }

  #printJson(entry: DemoEvent, urls: DemoLine['urls']): void {
    const { event, title, text, instance = null, works = [], ms = null, proof = null, counts = null } = entry
    const { seconds } = this
    const rounded = ms && Math.round(ms)
    const line: DemoLine = { seconds, event, title, text, instance, works, ms: rounded, proof, counts, urls }
    write([JSON.stringify(line)])
  }

  #timeOf({ at = performance.now() }: DemoEvent): string {
    return `${`${this.#secondsAt(at).toFixed(1)} s`.padStart(timeWidth)}  `
  }

  #print(entry: DemoEvent): void {
    const { event, title, text } = entry
    const margin = timeWidth + 2 + titleWidth + 1
    const [first = '', ...rest] = wrap(text, Math.min(process.stdout.columns || 80, maxWidth) - margin)
    const label = paint(this.#settings, title.padEnd(titleWidth), colours[event])
    this.#pending[Symbol.dispose]()
    // The counts belong to the check before them, so they have no time of their own.
    const time = event === 'work' || event === 'without' ? ' '.repeat(timeWidth + 2) : this.#timeOf(entry)
    write([`${paint(this.#settings, time, 'dim')}${label} ${first}`, ...rest.map((line) => ' '.repeat(margin) + line)])
  }
}
