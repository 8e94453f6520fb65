// Checks that the history of each name is linearizable: each operation has a moment between its call and its return, such that the operations, in
// the order of these moments, are possible in the sequential specification (fenced-lock.ts).
//
// Wing and Gong's search tries all orders, and needs exponential time in the worst case. The fences make the search unnecessary, because they
// determine every order that matters. The specification accepts an order of one name's operations if and only if the order contains these edges:
//
//   1. grant of h  → end of h
//   2. grant of h  → guard of h → end of h     if the guard checks in the database that h has not ended
//   3. end of h    → grant of h'               if h and h' exclude each other, and h has the smaller fence
//   4. guard of h  → committed guard of h'     if h has the smaller fence
//
// Proof. Each edge is necessary: for edge 3, two such holds cannot exist at the same time, and the later one must have the larger fence. Edge 4 is the
// rule of guards. Conversely, assume that an order contains all edges. No grant finds a hold that excludes it, because one of the two has ended
// before by edge 3, and the earlier one has the smaller fence. Guards are possible by edges 2 and 4, and ends by edge 1. So the specification accepts the order.
//
// All edges lead to a larger fence, or from a grant over a guard to an end, so there is no circle. The earliest moment of an operation is its own call
// or the earliest moment of an operation with an edge to it, whichever is later. A history is linearizable if and only if no earliest moment is after
// the operation's return: the earliest moments then are a solution, and in every solution each moment is at least the earliest one. An operation
// that returned before the call of another one has the earlier moment, so the order in real time is kept. Sorting by fence makes this O(n log n).
//
// Calls without a response are open-ended. A grant or a guard without a response may not have happened. Leaving it out is always right, because
// an additional grant or guard only adds edges. A killed process never releases its holds, so their ends have no return. A loss also has
// no return, because the client gives up before the server does. Refused calls never violate the specification, so they are not recorded.
//
// A hold ends at the earliest at the last check that found it valid. If the nemesis ended the session, PostgreSQL released the locks and notified the
// holder later. The loss is then an operation that can also happen at the fault, up to the longest time for a notification before the last check.
//
// The proof may contain a mistake. So the judge replays the order that it found with the specification, and test/property/linearizable.test.ts compares
// the results with those of Wing and Gong's search.
import type { Fault, Guard, History, Hold } from '../history.ts'
import { maxNotificationMs } from '../notification.ts'
import { apply, type NameState, type Operation, unused } from './fenced-lock.ts'
import { excerptOf, ms, namesOf } from './holds.ts'
import type { Verdict } from './index.ts'

const maxNotificationNs = BigInt(maxNotificationMs) * 1_000_000n

interface Interval {
  from: bigint
  /** Undefined if the operation can happen at any later time. */
  to?: bigint | undefined
}

/** An operation with the intervals in which it can have happened, in chronological order. Only losses have several intervals. */
export type TimedOperation = Operation & { within: Interval[] }

/** `at` is the earliest possible moment. `cause` is the operation because of which the moment is not the start of the first interval. */
type Placed = TimedOperation & { at: bigint; cause?: Placed }

/** An operation that returned before its earliest possible moment, with the operations that cause this moment. */
export interface Contradiction {
  operation: Operation
  after: Operation[]
  /** How much too late the moment is. */
  byNs: bigint
}

/** Times of a fault that ended sessions. */
export interface Ending {
  from: bigint
  to: bigint
}

export function endingsOf(faults: Fault[]): Ending[] {
  return faults
    .filter(({ ends }) => ends !== undefined)
    .map(({ from, to }) => ({ from: BigInt(from!), to: BigInt(to!) }))
}

/** Returns the operations of a hold. Guards are in the order of their calls. */
export function operationsOf(hold: Hold, endings: Ending[]): TimedOperation[] {
  const { from, to, requestedAt } = hold
  const endedBy = hold.notifiedAt === undefined ? hold.releasedAt : undefined
  const losses = hold.lasting ? [] : endings.flatMap((ending) => lossAt(ending, hold, endedBy))
  return [
    { kind: 'grant', hold, within: [{ from: requestedAt ?? 0n, to: from }] },
    ...hold.guards.map((guard) => ({
      kind: 'guard' as const,
      hold,
      guard,
      within: [{ from: guard.from, to: guard.to }],
    })),
    {
      kind: 'end',
      hold,
      within: [...losses.sort((a, b) => (a.from < b.from ? -1 : 1)), { from: to, to: endedBy }],
    },
  ]
}

/** Returns the interval in which the fault can have ended the hold, if it can have. */
function lossAt(ending: Ending, hold: Hold, endedBy: bigint | undefined): Interval[] {
  const first = latestOf(ending.from, hold.to - maxNotificationNs)
  const last = ending.to + maxNotificationNs
  const isPossible = first < hold.to && first <= last && (hold.requestedAt ?? 0n) <= ending.to
  return isPossible ? [{ from: first, to: endedBy !== undefined && endedBy < last ? endedBy : last }] : []
}

/** Finds an order of the operations on one name, or the contradictions in them. */
export function linearize(holds: Hold[], endings: Ending[]): { order: Operation[]; contradictions: Contradiction[] } {
  const placed: Placed[] = []
  const contradictions: Contradiction[] = []
  function place(operation: TimedOperation, causes: (Placed | undefined)[]): Placed {
    const one = earliest(operation, causes)
    const late = one.within.at(-1)!.to
    if (late !== undefined && one.at > late) {
      contradictions.push({ operation, after: [...causesOf(one)], byNs: one.at - late })
      // One violation must not cause others.
      one.at = one.within[0]!.from
      delete one.cause
    }
    placed.push(one)
    return one
  }
  let lastEnd: Placed | undefined
  let lastExclusiveEnd: Placed | undefined
  let lastGuard: Placed | undefined
  let guardOfFence: Placed | undefined
  let before: Hold | undefined
  for (const hold of holds.toSorted((a, b) => a.fence - b.fence || (a.from < b.from ? -1 : 1))) {
    const [grantCall, ...calls] = operationsOf(hold, endings)
    const endCall = calls.pop()!
    if (before && before.fence < hold.fence) {
      lastGuard = latest(lastGuard, guardOfFence)
      guardOfFence = undefined
    } else if (before && before.holder !== hold.holder) {
      contradictions.push({ operation: grantCall!, after: [{ kind: 'grant', hold: before }], byNs: 0n })
    }
    const grant = place(grantCall!, [hold.mode === 'shared' ? lastExclusiveEnd : lastEnd])
    const guards = calls.map((call) =>
      place(call, [checksHold(call) ? grant : undefined, isCommitted(call) ? lastGuard : undefined]),
    )
    const end = place(endCall, [grant, ...guards.filter(checksHold)])
    guardOfFence = latest(guardOfFence, ...guards)
    lastEnd = latest(lastEnd, end)
    if (hold.mode === 'exclusive') lastExclusiveEnd = latest(lastExclusiveEnd, end)
    before = hold
  }
  // The sort is stable, so an operation with the same moment as its cause stays behind it.
  return { order: placed.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)), contradictions }
}

const latestOf = (a: bigint, b: bigint) => (a > b ? a : b)
const latest = (...given: (Placed | undefined)[]) =>
  given.reduce((best, one) => (one && (!best || one.at > best.at) ? one : best), undefined)
const checksHold = (operation: Operation) => operation.kind === 'guard' && operation.guard.checksHold
const isCommitted = (operation: Operation) => operation.kind === 'guard' && operation.guard.isCommitted

/** Places the operation in the first interval in which it can happen after its causes, or after all intervals. */
function earliest(operation: TimedOperation, causes: (Placed | undefined)[]): Placed {
  const cause = latest(...causes)
  const least = cause?.at ?? 0n
  const interval = operation.within.find(({ to }) => to === undefined || to >= least) ?? operation.within.at(-1)!
  return interval.from >= least ? { ...operation, at: interval.from } : { ...operation, at: least, cause: cause! }
}

function* causesOf({ cause }: Placed): Generator<Placed> {
  if (!cause) return
  yield* causesOf(cause)
  yield cause
}

/** Number of operations and names, and the time that the check took. */
export interface LinearizedCounts {
  operations: number
  names: number
  tookMs: number
}

/** Checks the holds and guards of all names. Permits have a limit, and no fences: `permitsKept` checks them. */
export function linearizable(history: History): { holders: Verdict; writes: Verdict; counts: LinearizedCounts } {
  const began = performance.now()
  const endings = endingsOf(history.faults)
  const holders: Verdict = { count: 0, violations: [] }
  const writes: Verdict = { count: 0, violations: [] }
  const byName = namesOf(history.holds.filter(({ max }) => max === undefined))
  let operations = 0
  for (const [name, holds] of byName) {
    const { order, contradictions } = linearize(holds, endings)
    operations += order.length
    holders.count += holds.length
    for (const { guards } of holds) writes.count += guards.length
    for (const { operation, after, byNs } of contradictions) {
      const part = [...after, operation]
      const { violations } = operation.kind === 'guard' ? writes : holders
      violations.push({
        text: textOf(name, operation, after.at(-1), byNs),
        excerpt: excerptOf(history, [...new Set(part.map(({ hold }) => hold))], part.flatMap(guardOf)),
      })
    }
    if (contradictions.length === 0) replay(name, order)
  }
  return { holders, writes, counts: { operations, names: byName.size, tookMs: performance.now() - began } }
}

const guardOf = (operation: Operation): Guard[] => (operation.kind === 'guard' ? [operation.guard] : [])

function textOf(name: string, { kind, hold }: Operation, after: Operation | undefined, byNs: bigint) {
  const who = `process ${hold.holder} with fence ${hold.fence}`
  if (!after) return `${name} was valid for ${who} ${ms(byNs)} ms after its release`
  const { hold: before } = after
  const other = `process ${before.holder} with fence ${before.fence}`
  if (kind === 'grant') {
    if (byNs === 0n) return `${name} was granted twice with fence ${hold.fence}: to ${other}, and to ${who}`
    return `${name} had two holders for ${ms(latestOf(byNs, before.to - hold.from))} ms: ${other}, and ${who}`
  }
  if (kind === 'guard') return `the guard of ${name} accepted ${other} ${ms(byNs)} ms after it had accepted ${who}`
  return `the guard of ${name} accepted ${who} ${ms(byNs)} ms after its release`
}

/** Replays the order with the specification. An operation that is not possible is a mistake in this file. */
function replay(name: string, order: Operation[]) {
  let state: NameState = unused
  for (const operation of order) {
    const next = apply(state, operation)
    const { kind, hold } = operation
    if (!next) throw new Error(`The order found for ${name} is wrong: ${kind} with fence ${hold.fence} is not possible`)
    state = next
  }
}
