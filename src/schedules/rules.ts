import { ruleFromText, type TickRule } from '../cron/index.js'

/** The rules that were read of their texts, each once. */
export class Rules {
  readonly #read = new Map<string, TickRule | undefined>()

  /** The rule with this text; undefined when this version of Holdfast cannot read it. */
  of(text: string): TickRule | undefined {
    if (!this.#read.has(text)) {
      try {
        this.#read.set(text, ruleFromText(text))
      } catch {
        this.#read.set(text, undefined)
      }
    }
    return this.#read.get(text)
  }
}
