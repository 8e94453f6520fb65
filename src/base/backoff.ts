/**
 * How long to wait before try number `attempt` (from 0): doubling from `firstMs` up to `maxMs`, each time a random
 * point of the upper half, so that a fleet which failed together does not come back together.
 */
export function backoffMs(attempt: number, firstMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30))
  return ceiling * (0.5 + Math.random() / 2)
}
