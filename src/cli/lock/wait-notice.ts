import { printMessage } from '../failure.js'

const noticeAfterMs = 1_000

/** Prints a notice on the terminal after a wait of 1 second. Returns a function that cancels the notice. */
export function noticeWhenWaiting(notice: string): () => void {
  const timer = setTimeout(() => {
    if (process.stderr.isTTY) printMessage(`holdfast: ${notice}`)
  }, noticeAfterMs)
  return () => clearTimeout(timer)
}
