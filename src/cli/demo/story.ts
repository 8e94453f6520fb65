import type { DemoEvent, Happening, Narrator } from '../../demo/index.js'
import type { StoryLine } from '../documents.js'
import { type Colour, paint, write } from '../output.js'
import type { Settings } from '../settings.js'
import { wrap } from '../table.js'

const colours = {
  begin: undefined,
  opened: undefined,
  tick: undefined,
  report: undefined,
  leads: undefined,
  killed: 'red',
  frozen: 'yellow',
  thawed: undefined,
  elsewhere: undefined,
  work: 'dim',
  trouble: 'dim',
  died: 'red',
  proof: 'green',
  violation: 'red',
  closes: undefined,
  end: undefined,
} as const satisfies Record<DemoEvent, Colour | undefined>

const widthOfTime = 7
const widthOfEvent = 11
const widest = 120

/** Tells what happens, line by line: to people, or as JSON. */
export class Story implements Narrator {
  readonly #settings: Settings
  readonly #began = performance.now()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  get seconds(): number {
    return Math.round((performance.now() - this.#began) / 100) / 10
  }

  tell(happening: Happening): void {
    const { event, instance = null, works = [], ms = null, proof = null, text } = happening
    const { seconds } = this
    if (this.#settings.flag('json')) return
    if (this.#settings.flag('jsonl')) {
      const line: StoryLine = { seconds, event, instance, works, ms: ms && Math.round(ms), proof, text }
      write([JSON.stringify(line)])
    } else if (!this.#isLeftOut(event)) this.#print(seconds, event, text)
  }

  #isLeftOut(event: DemoEvent): boolean {
    // Errors that are no surprise where instances are killed and frozen: for programs that want to look into them.
    if (event === 'trouble') return true
    return this.#settings.flag('quiet') && !['proof', 'violation', 'died', 'end'].includes(event)
  }

  #print(seconds: number, event: DemoEvent, text: string): void {
    const margin = widthOfTime + widthOfEvent
    const room = Math.min(process.stdout.columns || 80, widest) - margin
    const [first = '', ...rest] = text.split('\n').flatMap((line) => wrap(line, room))
    const time = paint(this.#settings, `${seconds.toFixed(1).padStart(widthOfTime - 2)}  `, 'dim')
    const label = paint(this.#settings, event.padEnd(widthOfEvent), colours[event])
    const isDim = event === 'work'
    write([
      time + label + (isDim ? paint(this.#settings, first, 'dim') : first),
      ...rest.map((line) => ' '.repeat(margin) + (isDim ? paint(this.#settings, line, 'dim') : line)),
    ])
  }
}
