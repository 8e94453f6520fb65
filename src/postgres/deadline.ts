import { formatDuration } from '../base/index.js'
import { DatabaseUnreachableError } from './errors.js'

/** A connection that does not answer a statement of ours for this long is given up. */
export const answerWithinMs = 5_000

/** The answer, or a `DatabaseUnreachableError` when it does not come in time: then it may still happen. */
export async function withinDeadline<T>(answer: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DatabaseUnreachableError(`No answer within ${formatDuration(ms)}`)), ms)
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
  }
}
