import type { Settings } from './settings.js'

/**
 * How far long work is, on one line of stderr that it takes away at its end. People in front of a terminal see it; logs,
 * pipes and machines that build do not. It tells what was done, never what might be.
 *
 * @example
 * using progress = new Progress(settings)
 * progress.tell(`${done} of ${all} jobs`)
 */
export class Progress implements Disposable {
  readonly #isVisible: boolean

  constructor(settings: Settings) {
    const { CI, TERM } = process.env
    this.#isVisible = process.stderr.isTTY === true && !settings.isNegated('color') && !CI && TERM !== 'dumb'
  }

  show(text: string): void {
    if (this.#isVisible) process.stderr.write(`\r\x1b[K${text.slice(0, (process.stderr.columns || 80) - 1)}`)
  }

  [Symbol.dispose](): void {
    if (this.#isVisible) process.stderr.write('\r\x1b[K')
  }
}
