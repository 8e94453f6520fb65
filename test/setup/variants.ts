/** Whether all tests run, including slow ones: `npm run test:all`. */
export const runsAll = Boolean(process.env.HOLDFAST_ALL)

/** Whether to skip tests that take minutes and rarely fail alone. CI skips them, `npm test` on other machines and `npm run test:all` do not. */
export const isInHurry = Boolean(process.env.CI) && !runsAll

/**
 * Returns all variants of a test, or in a hurry only the first, so that the result depends only on the commit. Different tests have different first
 * variants, so that both variants, with and without an anchor, run somewhere.
 */
export function waysOf<const T>(ways: readonly T[]): readonly T[] {
  return isInHurry ? ways.slice(0, 1) : ways
}
