// The check of histories in the fault suite: small histories, and a comparison with Wing and Gong's search.
import { describe, expect, test } from 'vitest'
import { apply, type NameState, unused } from '../../faults/check/fenced-lock.ts'
import {
  endingsOf,
  linearizable,
  linearize,
  operationsOf,
  type TimedOperation,
} from '../../faults/check/linearizable.ts'
import type { Fault, Guard, History, Hold } from '../../faults/history.ts'
import { type Random, randomFrom } from './random.ts'
import { countOf, seedOf } from './seed.js'

/** Times are in units of 100 ms, so that the longest time for a notification has 10 units. */
const at = (time: number) => BigInt(Math.round(time * 1e8))
let ids = 0

function holdOf(fence: number, from: number, to: number, facts: Partial<Hold> = {}): Hold {
  const id = String(++ids)
  const known = { id, holder: String(fence), names: ['x'], mode: 'exclusive', lasting: true, guards: [] } as const
  return { ...known, guards: [], fence, from: at(from), to: at(to), ...facts } as Hold
}
const guardOf = (from: number, to: number, facts: Partial<Guard> = {}): Guard => ({
  id: String(++ids),
  from: at(from),
  to: at(to),
  checksHold: true,
  isCommitted: true,
  ...facts,
})
const endingOf = (from: number, to: number): Fault => ({
  at: at(from),
  text: 'terminate',
  ends: 'all',
  from: String(at(from)),
  to: String(at(to)),
})
const historyOf = (holds: Hold[], faults: Fault[] = []) => ({ holds, faults }) as Partial<History> as History
function textsOf(holds: Hold[], faults: Fault[] = []) {
  const { holders, writes } = linearizable(historyOf(holds, faults))
  return [...holders.violations, ...writes.violations].map(({ text }) => text)
}

const shared = { mode: 'shared' } as const
const session = { lasting: false } as const

describe('check of histories', () => {
  test.each<[string, Hold[], Fault[]?]>([
    ['holds one after the other', [holdOf(1, 0, 5), holdOf(2, 5, 9)]],
    [
      'readers at the same time, whose fences are not in the order of their grants',
      [holdOf(2, 0, 9, shared), holdOf(1, 3, 7, shared)],
    ],
    ['a hold that a process passes to its next caller', [holdOf(1, 0, 5), holdOf(1, 6, 9)]],
    ['a holder that was killed', [holdOf(1, 0, 5), holdOf(2, 7, 9, { requestedAt: at(1) })]],
    [
      'a loss that was reported late after the session was ended',
      [holdOf(1, 0, 8, session), holdOf(2, 4, 9)],
      [endingOf(2, 3)],
    ],
    [
      'a guard that was called before the release, and passed before the next grant',
      [holdOf(1, 0, 5, { guards: [guardOf(4, 8)] }), holdOf(2, 6, 9)],
    ],
    [
      'a stale guard that compares only fences, before the next writer',
      [
        holdOf(1, 0, 2, { guards: [guardOf(5, 6, { checksHold: false })] }),
        holdOf(2, 4, 9, { guards: [guardOf(7, 8)] }),
      ],
    ],
    [
      'a stale guard after a write that was not committed',
      [
        holdOf(1, 0, 2, { guards: [guardOf(7, 8, { checksHold: false })] }),
        holdOf(2, 3, 9, { guards: [guardOf(4, 5, { isCommitted: false })] }),
      ],
    ],
  ])('a history with %s is accepted', (_, holds, faults) => {
    expect(textsOf(holds, faults)).toEqual([])
  })

  test.each<[string, Hold[], string, Fault[]?]>([
    [
      'two holders',
      [holdOf(1, 0, 5), holdOf(2, 4, 9)],
      'x had two holders for 100.0 ms: process 1 with fence 1, and process 2 with fence 2',
    ],
    [
      'a smaller fence for the later holder',
      [holdOf(2, 0, 3), holdOf(1, 4, 9)],
      'x had two holders for 900.0 ms: process 1 with fence 1, and process 2 with fence 2',
    ],
    [
      'a reader next to a writer',
      [holdOf(1, 0, 5, shared), holdOf(2, 1, 3, shared), holdOf(3, 4, 9)],
      'x had two holders for 100.0 ms: process 1 with fence 1, and process 3 with fence 3',
    ],
    [
      'a fence that two processes received',
      [holdOf(1, 0, 3), holdOf(1, 4, 5, { holder: '2' })],
      'x was granted twice with fence 1: to process 1 with fence 1, and to process 2 with fence 1',
    ],
    [
      'an overlap after a fault that ended before the hold was requested',
      [holdOf(1, 6, 9, { ...session, requestedAt: at(5) }), holdOf(2, 8, 9)],
      'x had two holders for 100.0 ms: process 1 with fence 1, and process 2 with fence 2',
      [endingOf(2, 3)],
    ],
    [
      'a loss that was reported too late',
      [holdOf(1, 0, 18, session), holdOf(2, 4, 19)],
      'x had two holders for 1400.0 ms: process 1 with fence 1, and process 2 with fence 2',
      [endingOf(2, 3)],
    ],
    [
      'a guard that passed after the next grant',
      [holdOf(1, 0, 5, { guards: [guardOf(7, 8)] }), holdOf(2, 6, 9)],
      'x had two holders for 100.0 ms: process 1 with fence 1, and process 2 with fence 2',
    ],
    [
      'a guard that passed after the release',
      [holdOf(1, 0, 5, { releasedAt: at(6), guards: [guardOf(7, 8)] })],
      'the guard of x accepted process 1 with fence 1 100.0 ms after its release',
    ],
    [
      'a stale guard after a later write',
      [
        holdOf(1, 0, 2, { guards: [guardOf(7, 8, { checksHold: false })] }),
        holdOf(2, 3, 9, { guards: [guardOf(4, 5)] }),
      ],
      'the guard of x accepted process 1 with fence 1 200.0 ms after it had accepted process 2 with fence 2',
    ],
  ])('a history with %s is reported', (_, holds, text, faults) => {
    expect(textsOf(holds, faults)).toEqual([text])
  })

  test('the reported part of a history contains only the operations that contradict each other', () => {
    // The reader ends at 5, so the writer cannot end before 5, although its session may have been ended at 2.
    const chain = [holdOf(1, 0, 5, shared), holdOf(2, 6, 8, session), holdOf(3, 4, 9, shared)]
    const others = [holdOf(4, 10, 11), holdOf(5, 12, 13)]
    const { violations } = linearizable(historyOf([...chain, ...others], [endingOf(2, 3)])).holders
    expect(violations).toHaveLength(1)
    expect(violations[0]!.excerpt!.join('\n')).not.toMatch(/fence [45]/)
    expect(violations[0]!.excerpt!.join('\n')).toMatch(/fence 1.*fence 3.*fence 2/s)
  })

  test('the check and an exhaustive search agree on random histories', () => {
    const random = randomFrom(seedOf('histories'))
    const found = { accepted: 0, rejected: 0 }
    const rounds = countOf(2_000)
    for (let round = 0; round < rounds; round++) {
      const { holds, faults } = randomHistory(random, 3 + random.below(8))
      expect(isLinearizable(holds, faults), show(holds, faults)).toBe(true)
      expect(linearize(holds, endingsOf(faults)).contradictions, show(holds, faults)).toEqual([])
      for (let changes = 1 + random.below(3); changes > 0; changes--) change(random, holds, faults)
      const isAccepted = linearize(holds, endingsOf(faults)).contradictions.length === 0
      expect(isAccepted, show(holds, faults)).toBe(isLinearizable(holds, faults))
      found[isAccepted ? 'accepted' : 'rejected']++
    }
    expect(Math.min(found.accepted, found.rejected)).toBeGreaterThan(rounds / 10)
  })

  test('a long history of a sequential lock is accepted, and each planted overlap is reported', () => {
    const random = randomFrom(seedOf('long histories'))
    const { holds, faults } = randomHistory(random, 600)
    expect(textsOf(holds, faults)).toEqual([])
    const writers = holds.filter(({ mode }) => mode === 'exclusive').sort((a, b) => a.fence - b.fence)
    for (let tries = 0; tries < 10; tries++) {
      const index = random.below(writers.length - 1)
      const [one, next] = [writers[index]!, writers[index + 1]!]
      const changed = { ...one, to: next.from + at(20) }
      delete changed.releasedAt
      const text = `process ${one.holder} with fence ${one.fence}, and process ${next.holder} with fence ${next.fence}`
      expect(textsOf(holds.with(holds.indexOf(one), changed), faults).join()).toContain(text)
    }
  })
})

function show(holds: Hold[], faults: Fault[]) {
  return JSON.stringify({ holds, faults }, (_, value) => (typeof value === 'bigint' ? Number(value) / 1e8 : value))
}

/** Makes the history of a lock that executes operations one after the other. Each call begins before its operation, and returns later. */
function randomHistory(random: Random, operations: number): { holds: Hold[]; faults: Fault[] } {
  let state: NameState = unused
  let time = 100
  let fences = 10
  const usedFences = new Set<number>()
  const holds: Hold[] = []
  const faults: Fault[] = []
  const moment = new Map<Hold, { granted: number; ended: number }>()
  for (let count = 0; count < operations; count++) {
    time += 1 + random.below(6)
    const choice = random.fraction()
    const held = state.holds.length > 0 ? random.pick(state.holds) : undefined
    if (choice < 0.4 || !held) {
      const mode = random.chance(0.4) ? 'shared' : 'exclusive'
      fences += 1 + random.below(3)
      // Readers may receive their fences in another order than their locks.
      const earlier = fences - random.below(4)
      const fence = mode === 'shared' && !usedFences.has(earlier) ? earlier : fences
      const hold = holdOf(fence, time, time, { mode, lasting: random.chance(0.5), guards: [] })
      const next = apply(state, { kind: 'grant', hold })
      if (!next) continue
      usedFences.add(fence)
      moment.set(hold, { granted: time, ended: Number.POSITIVE_INFINITY })
      holds.push(hold)
      state = next
    } else if (choice < 0.7) {
      state = apply(state, { kind: 'end', hold: held })!
      moment.get(held)!.ended = time
    } else {
      const hold = random.chance(0.5) ? held : random.pick(holds)
      const guard = guardOf(time - random.below(5), time + random.below(5), {
        checksHold: random.chance(0.5),
        isCommitted: random.chance(0.7),
      })
      const next = apply(state, { kind: 'guard', hold, guard })
      if (!next) continue
      hold.guards.push(guard)
      state = next
    }
  }
  for (const [hold, { granted, ended }] of moment) {
    const length = Math.min(ended, time + 10) - granted
    hold.from = at(granted + (random.fraction() * length) / 3)
    hold.to = at(granted + length - (random.fraction() * length) / 3)
    if (random.chance(0.8)) hold.requestedAt = at(granted - random.below(10))
    if (ended === Number.POSITIVE_INFINITY || random.chance(0.2)) continue
    if (random.chance(0.6)) hold.releasedAt = at(ended + random.below(10))
    else if (!hold.lasting) {
      faults.push(endingOf(ended - random.below(3), ended + random.below(3)))
      hold.to = at(ended + random.below(8))
    }
  }
  return { holds, faults }
}

/** Moves one event, or exchanges two fences. The result may be a history of a lock or not. */
function change(random: Random, holds: Hold[], faults: Fault[]) {
  const hold = random.pick(holds)
  const by = at(random.below(30) - 15)
  const choice = random.below(6)
  if (choice === 0) hold.to = hold.to + by > hold.from ? hold.to + by : hold.from
  else if (choice === 1) hold.from = hold.from + by < hold.to ? hold.from + by : hold.to
  else if (choice === 2) {
    const other = random.pick(holds)
    ;[hold.fence, other.fence] = [other.fence, hold.fence]
  } else if (choice === 3 && hold.guards.length > 0) {
    const guard = random.pick(hold.guards)
    guard.from += by
    guard.to += by
  } else if (choice === 4) hold.mode = hold.mode === 'shared' ? 'exclusive' : 'shared'
  else faults.splice(random.below(faults.length + 1), 1)
  if (hold.requestedAt !== undefined && hold.requestedAt > hold.from) hold.requestedAt = hold.from
  if (hold.releasedAt !== undefined && hold.releasedAt < hold.to) hold.releasedAt = hold.to
}

/** Wing and Gong's search with Lowe's memoization: tries all orders, and never visits a set of operations with the same state twice. */
function isLinearizable(holds: Hold[], faults: Fault[]): boolean {
  const operations = holds.flatMap((hold) => operationsOf(hold, endingsOf(faults)))
  const seen = new Set<string>()
  function visit(done: bigint, state: NameState): boolean {
    if (done === (1n << BigInt(operations.length)) - 1n) return true
    const key = `${done} ${state.holds.map(({ id }) => id).sort()} ${state.last?.id} ${state.lastExclusive?.id} ${state.written}`
    if (seen.has(key)) return false
    seen.add(key)
    const left = operations.filter((_, index) => !(done & (1n << BigInt(index))))
    return left.some((operation) => {
      const isNext = left.every(({ within: [interval] }) => !isBefore(interval!.to, operation))
      const next = isNext ? apply(state, operation) : undefined
      return next !== undefined && visit(done | (1n << BigInt(operations.indexOf(operation))), next)
    })
  }
  // A loss has several intervals. The search tries each of them.
  function choose(index: number): boolean {
    const operation = operations[index]
    if (!operation) {
      seen.clear()
      return visit(0n, unused)
    }
    const { within } = operation
    const isFound = within.some((interval) => {
      operation.within = [interval]
      return choose(index + 1)
    })
    operation.within = within
    return isFound
  }
  return choose(0)
}

function isBefore(returned: bigint | undefined, { within: [interval] }: TimedOperation) {
  return returned !== undefined && returned < interval!.from
}
