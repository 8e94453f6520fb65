import { HoldfastError, type HoldfastErrorCode } from '../base/index.js'

export type EmbeddedErrorCode = Extract<HoldfastErrorCode, `EMBEDDED_${string}`>

/** Thrown if an operation on an embedded server failed. */
export class EmbeddedError extends HoldfastError {
  declare readonly code: EmbeddedErrorCode

  constructor(code: EmbeddedErrorCode, message: string, hint?: string, cause?: unknown) {
    super(message, { code, retryable: false, hint, cause })
  }
}
