import { printMessage } from '../failure.js'

const noticeAfterMs = 1_000

/** Prints a notice on a terminal if the wait takes longer than a second. Returns a function that cancels the notice. */
export function noticeWhenWaiting(reason: string): () => void {
  const timer = setTimeout(() => {
    if (process.stderr.isTTY) printMessage(`holdfast: waiting ${reason}`)
  }, noticeAfterMs)
  return () => clearTimeout(timer)
}
