import type { HoldfastError } from '../base/index.js'
import { sqlstateOf } from '../postgres/index.js'

/** Why a term ended, as its instance tells it. The column `term.why` explains each. */
export type Why =
  | 'released'
  | 'asked'
  | 'drained'
  | 'closed'
  | 'stepped-down'
  | 'replaced'
  | 'not-eligible'
  | 'ended'
  | 'taken'
  | 'expired'
  | 'restarted'
  | 'lost'

const steppingDown: Record<string, Why> = { preferred: 'replaced', 'not-eligible': 'not-eligible' }

/** Of what was given back: by what its holder was told before, if it was told anything. */
export function whyGivenBack(reason: Error | undefined, isClosing: boolean): Why {
  const { code, because } = (reason ?? {}) as Partial<HoldfastError> & { because?: string }
  if (code === 'RELEASE_REQUESTED') return 'asked'
  if (code === 'INSTANCE_DRAINING') return 'drained'
  if (code === 'STEPPED_DOWN' && because !== 'closing') return steppingDown[because ?? ''] ?? 'stepped-down'
  if (code === undefined) return 'released'
  // Also a campaign, or a handle, can be closed alone.
  if (isClosing) return 'closed'
  return code === 'STEPPED_DOWN' ? 'stepped-down' : 'released'
}

/** Of what was lost: by what its holder was told. */
export function whyLost(reason: Error, kind: 'lock' | 'lease'): Why {
  const cause = reason.cause as Partial<HoldfastError> | undefined
  if (cause?.code === 'LEASE_TAKEN') return 'taken'
  if (kind === 'lease') return 'expired'
  const state = sqlstateOf(cause)
  // To end all sessions is how a server begins to restart, too; who writes it down looks whether it did.
  if (state === '57P01') return 'ended'
  return state === '57P02' || state === '57P03' ? 'restarted' : 'lost'
}
