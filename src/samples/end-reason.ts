import type { HoldfastError } from '../base/index.js'
import { sqlstateOf } from '../postgres/index.js'

/** Reason why a term ended. The comment on the `term.why` column explains each reason. */
export type EndReason =
  | 'released'
  | 'release-requested'
  | 'drained'
  | 'closed'
  | 'stepped-down'
  | 'replaced'
  | 'not-eligible'
  | 'session-ended'
  | 'revoked'
  | 'expired'
  | 'restarted'
  | 'lost'

const steppedDownReasons: Record<string, EndReason> = { preferred: 'replaced', 'not-eligible': 'not-eligible' }

/** Returns the reason for a release, based on the reason with which the holder's signal was aborted, if it was. */
export function reasonForRelease(reason: Error | undefined, isClosing: boolean): EndReason {
  const { code, reason: cause } = (reason ?? {}) as Partial<HoldfastError> & { reason?: string }
  if (code === 'RELEASE_REQUESTED') return 'release-requested'
  if (code === 'DRAINING') return 'drained'
  if (code === 'STEPPED_DOWN' && cause !== 'closing') return steppedDownReasons[cause ?? ''] ?? 'stepped-down'
  if (code === undefined) return 'released'
  // A campaign or a handle can also be closed while the instance stays open.
  if (isClosing) return 'closed'
  return code === 'STEPPED_DOWN' ? 'stepped-down' : 'released'
}

/** Returns the reason for a loss. */
export function reasonForLoss(reason: Error, kind: 'lock' | 'lease'): EndReason {
  const cause = reason.cause as Partial<HoldfastError> | undefined
  if (cause?.code === 'LEASE_NOT_HELD') return 'revoked'
  if (kind === 'lease') return 'expired'
  const state = sqlstateOf(cause)
  // A restarting server ends sessions with the same code. The `write` statement checks for a restart.
  if (state === '57P01') return 'session-ended'
  return state === '57P02' || state === '57P03' ? 'restarted' : 'lost'
}
