import { say } from '../failure.js'

const tellAfterMs = 1_000

/** People in front of a terminal wonder why nothing happens; a log does not. Answers with how to keep silent. */
export function tellWhenWaiting(what: string): () => void {
  const timer = setTimeout(() => {
    if (process.stderr.isTTY) say(`holdfast: waiting ${what}`)
  }, tellAfterMs)
  return () => clearTimeout(timer)
}
