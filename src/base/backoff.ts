/**
 * Pause before attempt number `attempt` (from 0). It doubles from `firstMs` up to `maxMs`. Jitter picks a random point in the upper
 * half, so that instances which failed at the same time do not retry at the same time.
 */
export function backoffMs(attempt: number, firstMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30))
  return ceiling * (0.5 + Math.random() / 2)
}
