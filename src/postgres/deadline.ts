import { formatDuration } from '../base/index.js'
import { DatabaseUnreachableError } from './errors.js'

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
