import type { DemoEvent, DemoEventKind, DemoReporter } from '../../demo/index.js'
import type { DemoLine } from '../documents.js'
import { type Colour, paint, write } from '../output.js'
import type { Settings } from '../settings.js'
import { wrap } from '../table.js'

const colours: Partial<Record<DemoEventKind, Colour>> = {
  killed: 'red',
  frozen: 'yellow',
  work: 'dim',
  trouble: 'dim',
  died: 'red',
  proof: 'green',
  violation: 'red',
}

const timeWidth = 7
const eventWidth = 11
const maxWidth = 120

/** Prints the demo's events as text or as JSON. */
export class DemoPrinter implements DemoReporter {
  readonly #settings: Settings
  readonly #startedAt = performance.now()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  get seconds(): number {
    return Math.round((performance.now() - this.#startedAt) / 100) / 10
  }

  report(entry: DemoEvent): void {
    const { event, instance = null, works = [], ms = null, proof = null, text } = entry
    const { seconds } = this
    if (this.#settings.flag('json')) return
    if (this.#settings.flag('jsonl')) {
      const line: DemoLine = { seconds, event, instance, works, ms: ms && Math.round(ms), proof, text }
      write([JSON.stringify(line)])
    } else if (!this.#isOmitted(event)) this.#print(seconds, event, text)
  }

  #isOmitted(event: DemoEventKind): boolean {
    // Errors are expected when instances are killed or frozen, so only `--jsonl` prints them.
    if (event === 'trouble') return true
    return this.#settings.flag('quiet') && !['proof', 'violation', 'died', 'ended'].includes(event)
  }

  #print(seconds: number, event: DemoEventKind, text: string): void {
    const margin = timeWidth + eventWidth
    const room = Math.min(process.stdout.columns || 80, maxWidth) - margin
    const [first = '', ...rest] = text.split('\n').flatMap((line) => wrap(line, room))
    const time = paint(this.#settings, `${seconds.toFixed(1).padStart(timeWidth - 2)}  `, 'dim')
    const label = paint(this.#settings, event.padEnd(eventWidth), colours[event])
    const isDim = event === 'work'
    write([
      time + label + (isDim ? paint(this.#settings, first, 'dim') : first),
      ...rest.map((line) => ' '.repeat(margin) + (isDim ? paint(this.#settings, line, 'dim') : line)),
    ])
  }
}
