import type { HoldfastError } from '../base/index.js'
import { sqlstateOf } from '../postgres/index.js'

/** Why a term ended, as its instance tells it. The column `term.why` explains each. */
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

/** Of what was given back: by what its holder was told before, if it was told anything. */
export function reasonForRelease(reason: Error | undefined, isClosing: boolean): EndReason {
  const { code, reason: cause } = (reason ?? {}) as Partial<HoldfastError> & { reason?: string }
  if (code === 'RELEASE_REQUESTED') return 'release-requested'
  if (code === 'INSTANCE_DRAINING') return 'drained'
  if (code === 'STEPPED_DOWN' && cause !== 'closing') return steppedDownReasons[cause ?? ''] ?? 'stepped-down'
  if (code === undefined) return 'released'
  // Also a campaign, or a handle, can be closed alone.
  if (isClosing) return 'closed'
  return code === 'STEPPED_DOWN' ? 'stepped-down' : 'released'
}

/** Of what was lost: by what its holder was told. */
export function reasonForLoss(reason: Error, kind: 'lock' | 'lease'): EndReason {
  const cause = reason.cause as Partial<HoldfastError> | undefined
  if (cause?.code === 'LEASE_NOT_HELD') return 'revoked'
  if (kind === 'lease') return 'expired'
  const state = sqlstateOf(cause)
  // To end all sessions is how a server begins to restart, too; who writes it down looks whether it did.
  if (state === '57P01') return 'session-ended'
  return state === '57P02' || state === '57P03' ? 'restarted' : 'lost'
}
