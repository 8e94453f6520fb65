import { printMessage } from '../failure.js'

const noticeAfterMs = 1_000

/** People in front of a terminal wonder why nothing happens; a log does not. Answers with how to keep silent. */
export function noticeWhenWaiting(reason: string): () => void {
  const timer = setTimeout(() => {
    if (process.stderr.isTTY) printMessage(`holdfast: waiting ${reason}`)
  }, noticeAfterMs)
  return () => clearTimeout(timer)
}
