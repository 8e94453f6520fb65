import { expect, test } from 'vitest'
import { type Hold, judge, judgePermits } from './history.js'

// Tests of the judge itself: it must find violations.
const ms = 1_000_000n

function hold(id: string, fence: number, from: bigint, to: bigint, mode: Hold['mode'] = 'exclusive'): Hold {
  return { id, fence, mode, from: from * ms, to: to * ms, schedule: 0, names: ['x'], notifiedAt: undefined }
}

const violationsOf = (...holds: Hold[]) => judge(holds, []).violations.length

test('the judge accepts holds that follow each other', () => {
  expect(violationsOf(hold('1:1', 1, 0n, 5n), hold('2:1', 2, 6n, 9n))).toBe(0)
})

test('the judge finds two holders at the same time if one of them is exclusive', () => {
  expect(violationsOf(hold('1:1', 1, 0n, 5n), hold('2:1', 2, 5n, 9n))).toBe(1)
  expect(violationsOf(hold('1:1', 1, 0n, 5n), hold('2:1', 2, 4n, 9n, 'shared'))).toBe(1)
  expect(violationsOf(hold('1:1', 1, 0n, 5n, 'shared'), hold('2:1', 2, 4n, 9n))).toBe(1)
  expect(violationsOf(hold('1:1', 1, 0n, 5n, 'shared'), hold('2:1', 2, 4n, 9n, 'shared'))).toBe(0)
})

test('the judge finds a fence that decreases or repeats', () => {
  expect(violationsOf(hold('1:1', 2, 0n, 5n), hold('2:1', 1, 6n, 9n))).toBe(1)
  expect(violationsOf(hold('1:1', 2, 0n, 5n), hold('2:1', 2, 6n, 9n))).toBe(1)
})

test('the judge excuses a short overlap after the end of a session, only for the process of that session', () => {
  const ending = { pid: 1, from: 1n * ms, to: 2n * ms }
  const found = (to: bigint, pid: number | 'all') =>
    judge([hold('1:1', 1, 0n, to), hold('2:1', 2, 4n, 9n)], [{ ...ending, pid }]).violations.length
  expect(found(5n, 1)).toBe(0)
  expect(found(5n, 'all')).toBe(0)
  expect(found(5n, 2)).toBe(1)
  expect(found(900n, 1)).toBe(0)
  expect(found(1_100n, 1)).toBe(1)
})

test('the judge finds permits whose total weight exceeds the limit', () => {
  const permit = (id: string, weight: number, from: bigint, to: bigint) => ({
    ...hold(id, 1, from, to),
    weight,
    max: 3,
  })
  const found = (...permits: Hold[]) => judgePermits(permits, []).violations.length
  expect(found(permit('1:1', 2, 0n, 5n), permit('2:1', 1, 1n, 5n))).toBe(0)
  expect(found(permit('1:1', 2, 0n, 5n), permit('2:1', 2, 6n, 9n))).toBe(0)
  expect(found(permit('1:1', 2, 0n, 5n), permit('2:1', 2, 4n, 9n))).toBe(1)
  expect(
    found(permit('1:1', 1, 0n, 9n), permit('2:1', 1, 1n, 9n), permit('3:1', 1, 2n, 9n), permit('4:1', 1, 3n, 4n)),
  ).toBe(1)
  const ending = { pid: 1, from: 1n * ms, to: 2n * ms }
  expect(judgePermits([permit('1:1', 2, 0n, 5n), permit('2:1', 2, 4n, 9n)], [ending]).violations).toEqual([])
})
