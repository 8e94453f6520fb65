// The sequential specification of a name: a lock with shared and exclusive holds, fences and guarded writes. Locks, leases, elections, shares, lanes
// and runs of schedules are such locks. The specification knows no time. `linearizable.ts` compares it with what happened.
import type { Guard, Hold } from '../history.ts'

/** An operation on a name: a grant, a guard that passed, or the end of a hold by a release or a loss. */
export type Operation = { hold: Hold } & ({ kind: 'grant' } | { kind: 'end' } | { kind: 'guard'; guard: Guard })

/** State of a name. `last` is the grant with the largest fence, and `lastExclusive` the exclusive one. */
export interface NameState {
  readonly holds: readonly Hold[]
  readonly last?: Hold | undefined
  readonly lastExclusive?: Hold | undefined
  /** The largest fence of a guarded write that was committed. */
  readonly written: number
}

export const unused: NameState = { holds: [], written: 0 }

export const excludes = (a: Hold, b: Hold) => a.mode === 'exclusive' || b.mode === 'exclusive'

/** One process may record the same hold several times, one after the other, because it passes a lock from one caller to the next. */
const isLater = (hold: Hold, last: Hold | undefined) =>
  !last || hold.fence > last.fence || (hold.fence === last.fence && hold.holder === last.holder)

/** Returns the state after the operation, or undefined if the operation is not possible in the state. */
export function apply(state: NameState, operation: Operation): NameState | undefined {
  const { holds, last, lastExclusive, written } = state
  const { hold } = operation
  if (operation.kind === 'grant') {
    const isExclusive = hold.mode === 'exclusive'
    if (holds.some((other) => excludes(other, hold)) || !isLater(hold, isExclusive ? last : lastExclusive)) return
    return {
      holds: [...holds, hold],
      last: isLater(hold, last) ? hold : last,
      lastExclusive: isExclusive ? hold : lastExclusive,
      written,
    }
  }
  if (operation.kind === 'end') {
    return holds.includes(hold) ? { ...state, holds: holds.filter((other) => other !== hold) } : undefined
  }
  const { checksHold, isCommitted } = operation.guard
  if (hold.fence < written || (checksHold && !holds.includes(hold))) return
  return isCommitted ? { ...state, written: hold.fence } : state
}
