import { ruleFromText, type TickRule } from '../cron/index.js'

/** Stored schedules may have any number of different rules. */
const maxCached = 10_000

/** Cache of parsed rules. */
export class Rules {
  readonly #read = new Map<string, TickRule | undefined>()

  /** Parses a rule's text and returns the rule, or undefined if this version of Holdfast cannot read the text. */
  of(text: string): TickRule | undefined {
    if (!this.#read.has(text)) {
      if (this.#read.size >= maxCached) this.#read.clear()
      try {
        this.#read.set(text, ruleFromText(text))
      } catch {
        this.#read.set(text, undefined)
      }
    }
    return this.#read.get(text)
  }
}
