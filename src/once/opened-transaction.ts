import { UsageError } from '../base/index.js'
import {
  type CallerTransaction,
  type Executor,
  executorOf,
  markHandlerTransaction,
  type OpenTransaction,
} from '../postgres/index.js'

/** Time within which the user's function must open a transaction. A busy connection pool may take a while. */
const openWithinMs = 60_000

/**
 * Runs `work` in a transaction that the user's function opens. Resolves after the commit. Throws a `UsageError` if the
 * function does not call its argument exactly once, or does not wait for the argument's promise.
 */
export async function inOpenedTransaction(
  open: OpenTransaction,
  work: (tx: Executor, given: CallerTransaction) => Promise<void>,
): Promise<void> {
  let state: 'not called' | 'running' | 'done' | { readonly error: unknown } = 'not called'
  let misuse: UsageError | undefined
  let stopTimer = () => {}
  const misused = (got: string, hint: string): UsageError => {
    misuse ??= new UsageError(
      `Expected the option transaction to call its argument once and to wait for its promise, but ${got}`,
      hint,
    )
    return misuse
  }
  const callback = async (given: CallerTransaction): Promise<void> => {
    stopTimer()
    if (state !== 'not called') throw misused('it called its argument twice', retryHint)
    // The attempt has already failed. Throwing rolls back a transaction that is opened later.
    if (misuse) throw misuse
    state = 'running'
    let unmark = () => {}
    try {
      const executor = executorOf(given)
      unmark = markHandlerTransaction(given)
      await work(executor, given)
      state = 'done'
    } catch (error) {
      state = { error }
      throw error
    } finally {
      unmark()
    }
  }
  const notOpened = new Promise<never>((_, reject) => {
    const timer = setTimeout(() => reject(misused('it opened no transaction within 60 s', poolHint)), openWithinMs)
    stopTimer = () => clearTimeout(timer)
  })
  let failure: { readonly error: unknown } | undefined
  try {
    await Promise.race([open(callback), notOpened])
  } catch (error) {
    failure = { error }
  }
  stopTimer()
  if (misuse) throw misuse
  // The function may replace or hide the error of its argument.
  if (typeof state === 'object') throw (state as { error: unknown }).error
  if (failure) throw failure.error
  if (state === 'not called') throw misused('it ended without calling its argument', returnHint)
  if (state === 'running') throw misused('it did not wait', returnHint)
}

const returnHint = 'Return the promise of your library, for example transaction: (work) => db.transaction(work).'
const retryHint = 'Do not retry inside the function. Holdfast runs a failed job again.'
const poolHint =
  'Call the argument, and give the connection pool of your library a connection for each running handler.'
