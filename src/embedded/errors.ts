import { HoldfastError } from '../base/index.js'

export type EmbeddedErrorCode =
  | 'EMBEDDED_UNSUPPORTED'
  | 'EMBEDDED_PACKAGE_MISSING'
  | 'EMBEDDED_COPY_NOT_OURS'
  | 'EMBEDDED_NO_USER'
  | 'EMBEDDED_UNREACHABLE'
  | 'EMBEDDED_DATA_NOT_OURS'
  | 'EMBEDDED_DATA_IN_USE'
  | 'EMBEDDED_PORT_TAKEN'
  | 'EMBEDDED_START_FAILED'

/** An operation of an embedded server failed. */
export class EmbeddedError extends HoldfastError {
  declare readonly code: EmbeddedErrorCode

  constructor(code: EmbeddedErrorCode, message: string, hint?: string, cause?: unknown) {
    super(message, { code, retryable: false, hint, cause })
  }
}
