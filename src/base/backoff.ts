/**
 * Returns the pause before attempt number `attempt` (counted from 0). The pause doubles from `firstMs` up to `maxMs`. Random jitter
 * shortens the pause by up to half, so that instances that failed at the same time do not retry at the same time.
 */
export function backoffMs(attempt: number, firstMs: number, maxMs: number): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30))
  return ceiling * (0.5 + Math.random() / 2)
}
