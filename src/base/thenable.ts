/**
 * Whether the value can be awaited: a promise from any library or realm, or a lazy query. Also true if reading `then` throws, because `await`
 * then rejects with the same error.
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
 * Awaits a value that the user passed. Only `await` is safe: `Promise.resolve(given).then(…)` would pass our callbacks to an overridden
 * `then`, which could call them twice.
 */
export async function awaitValue<T>(given: PromiseLike<T> | T): Promise<T> {
  return await given
}
