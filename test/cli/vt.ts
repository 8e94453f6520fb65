/** What a terminal shows that was sent these bytes: the few sequences that we use, and nothing else is forgiven. */
export class Vt {
  #rows: string[][] = []
  #row = 0
  #column = 0
  #saved: string[][] = []
  isAlternate = false
  isCursorShown = true

  constructor(bytes: string) {
    // biome-ignore-start lint/suspicious/noControlCharactersInRegex: they are what this is about
    // What has not arrived whole says nothing yet.
    const whole = bytes.replace(/\x1b(\[[?\d;]*)?$/, '')
    for (const [token, parameters, letter] of whole.matchAll(/\x1b\[([?\d;]*)([A-Za-z])|[\s\S]/gu)) {
      // biome-ignore-end lint/suspicious/noControlCharactersInRegex: they are what this is about
      if (letter === undefined) this.#write(token)
      else this.#obey(parameters!, letter)
    }
  }

  /** Without the blanks behind them. */
  get lines(): string[] {
    return Array.from(this.#rows, (row) =>
      Array.from(row ?? [], (sign) => sign ?? ' ')
        .join('')
        .trimEnd(),
    )
  }

  get text(): string {
    return this.lines.join('\n')
  }

  #write(sign: string): void {
    if (sign === '\x1b') throw new Error('A sequence that is not known')
    if (sign === '\r') this.#column = 0
    else if (sign === '\n') this.#row++
    else {
      this.#rows[this.#row] ??= []
      this.#rows[this.#row]![this.#column++] = sign
    }
  }

  #obey(parameters: string, letter: string): void {
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
    } else if (letter !== 'm' && !['?7l', '?7h'].includes(command)) throw new Error(`What is ${command}?`)
  }
}
