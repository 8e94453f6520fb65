/**
 * Whether it can be awaited: a promise of any library or realm, or a query that begins only when somebody does. What is neither
 * must not be made asynchronous for nothing.
 */
export function isThenable(given: unknown): given is PromiseLike<unknown> {
  return (
    ((typeof given === 'object' && given !== null) || typeof given === 'function') &&
    typeof (given as { then?: unknown }).then === 'function'
  )
}
