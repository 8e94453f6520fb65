import type { Settings } from './settings.js'

/**
 * Shows the progress of long work on one line of stderr, and erases the line when the work is done. Shows nothing if
 * stderr is piped or redirected, or in CI.
 *
 * @example
 * using progress = new Progress(settings)
 * progress.show(`${done} of ${all} jobs`)
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
