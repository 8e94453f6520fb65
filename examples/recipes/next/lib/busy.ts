import { LimitReachedError, LockTimeoutError } from 'holdfast'

/** Responds with an error status if a lock or a limit is busy. */
export function busy(error: unknown): Response {
  const headers = { 'retry-after': '1' }
  if (error instanceof LockTimeoutError) return Response.json({ busy: error.lock }, { status: 409, headers })
  if (error instanceof LimitReachedError) return Response.json({ busy: error.limit }, { status: 429, headers })
  throw error
}
