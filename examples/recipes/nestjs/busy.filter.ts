import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common'
import type { Response } from 'express'
import { LimitReachedError, LockTimeoutError } from 'holdfast'

/** Responds with an error status if a lock or a limit is busy. */
@Catch(LockTimeoutError, LimitReachedError)
export class BusyFilter implements ExceptionFilter {
  catch(error: LockTimeoutError | LimitReachedError, host: ArgumentsHost) {
    const response = host.switchToHttp().getResponse<Response>()
    if (error instanceof LockTimeoutError) response.status(409).set('retry-after', '1').json({ busy: error.lock })
    else response.status(429).set('retry-after', '1').json({ busy: error.limit })
  }
}
