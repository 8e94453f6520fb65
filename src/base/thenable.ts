/**
 * Whether it can be awaited: a promise of any library or realm, or a query that begins only when somebody does. What is neither
 * must not be made asynchronous for nothing. True where the look at `then` throws: `await` then rejects with the same error.
 */
export function isThenable(given: unknown): given is PromiseLike<unknown> {
  if ((typeof given !== 'object' || given === null) && typeof given !== 'function') return false
  try {
    return typeof (given as { then?: unknown }).then === 'function'
  } catch {
    return true
  }
}

/**
 * Waits for a value of the user. `await` alone is safe for every value: `Promise.resolve(given).then(…)` would call an overridden
 * `then` of a promise with our own callbacks, which could then be called twice.
 */
export async function awaitValue<T>(given: PromiseLike<T> | T): Promise<T> {
  return await given
}
