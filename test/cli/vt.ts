/**
 * Shows the screen of a terminal that received these bytes. Knows only the few sequences that Holdfast uses and throws on any
 * other.
 */
export class Vt {
  #rows: string[][] = []
  #row = 0
  #column = 0
  #saved: string[][] = []
  isAlternate = false
  isCursorShown = true

  constructor(bytes: string) {
    // biome-ignore-start lint/suspicious/noControlCharactersInRegex: this class parses control characters
    // Ignore an incomplete sequence at the end.
    const whole = bytes.replace(/\x1b(\[[?\d;]*)?$/, '')
    for (const [token, parameters, letter] of whole.matchAll(/\x1b\[([?\d;]*)([A-Za-z])|[\s\S]/gu)) {
      // biome-ignore-end lint/suspicious/noControlCharactersInRegex: this class parses control characters
      if (letter === undefined) this.#write(token)
      else this.#execute(parameters!, letter)
    }
  }

  /** Lines without trailing blanks. */
  get lines(): string[] {
    return Array.from(this.#rows, (row) =>
      Array.from(row ?? [], (character) => character ?? ' ')
        .join('')
        .trimEnd(),
    )
  }

  get text(): string {
    return this.lines.join('\n')
  }

  #write(character: string): void {
    if (character === '\x1b') throw new Error('Unknown sequence')
    if (character === '\r') this.#column = 0
    else if (character === '\n') this.#row++
    else {
      this.#rows[this.#row] ??= []
      this.#rows[this.#row]![this.#column++] = character
    }
  }

  #execute(parameters: string, letter: string): void {
    const command = `${parameters}${letter}`
    if (letter === 'H') {
      const [row, column] = parameters.split(';').map(Number)
      this.#row = row! - 1
      this.#column = column! - 1
    } else if (command === 'K') this.#rows[this.#row]?.splice(this.#column)
    else if (command === '2J') this.#rows = []
    else if (command === '?25l' || command === '?25h') this.isCursorShown = letter === 'h'
    else if (command === '?1049h') {
      this.isAlternate = true
      this.#saved = this.#rows
      this.#rows = []
    } else if (command === '?1049l') {
      this.isAlternate = false
      this.#rows = this.#saved
    } else if (letter !== 'm' && !['?7l', '?7h'].includes(command)) throw new Error(`Unknown sequence ${command}`)
  }
}
