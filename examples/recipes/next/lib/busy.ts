import { LimitReachedError, LockTimeoutError } from 'holdfast'

/** Responds with an error status if a lock or a limit is busy. */
export function busy(error: unknown): Response {
  if (error instanceof LockTimeoutError) return Response.json({ busy: error.lock }, { status: 409 })
  if (error instanceof LimitReachedError) {
    return Response.json({ busy: error.limit }, { status: 429, headers: { 'retry-after': '1' } })
  }
  throw error
}
