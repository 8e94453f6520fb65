/** Whether all tests run, including slow ones: `npm run test:all`. `npm test` skips tests that take minutes and rarely fail alone. */
export const runsAll = Boolean(process.env.HOLDFAST_ALL)

/**
 * Returns all variants of a test if all tests run, and otherwise only the first, so that the result depends only on the commit. Different tests have
 * different first variants, so that both variants, with and without an anchor, run somewhere.
 */
export function waysOf<const T>(ways: readonly T[]): readonly T[] {
  return runsAll ? ways : ways.slice(0, 1)
}
