import { expect, test } from 'vitest'
import { type Hold, judge, judgePermits } from './history.js'

// The proof must be able to fail.
const ms = 1_000_000n

function hold(id: string, fence: number, from: bigint, to: bigint, mode: Hold['mode'] = 'exclusive'): Hold {
  return { id, fence, mode, from: from * ms, to: to * ms, schedule: 0, names: ['x'], toldAt: undefined }
}

const violationsOf = (...holds: Hold[]) => judge(holds, []).violations.length

test('one after the other is fine', () => {
  expect(violationsOf(hold('1:1', 1, 0n, 5n), hold('2:1', 2, 6n, 9n))).toBe(0)
})

test('two believers are found, in either mode', () => {
  expect(violationsOf(hold('1:1', 1, 0n, 5n), hold('2:1', 2, 5n, 9n))).toBe(1)
  expect(violationsOf(hold('1:1', 1, 0n, 5n), hold('2:1', 2, 4n, 9n, 'shared'))).toBe(1)
  expect(violationsOf(hold('1:1', 1, 0n, 5n, 'shared'), hold('2:1', 2, 4n, 9n))).toBe(1)
  expect(violationsOf(hold('1:1', 1, 0n, 5n, 'shared'), hold('2:1', 2, 4n, 9n, 'shared'))).toBe(0)
})

test('a fence that falls, or comes again, is found', () => {
  expect(violationsOf(hold('1:1', 2, 0n, 5n), hold('2:1', 1, 6n, 9n))).toBe(1)
  expect(violationsOf(hold('1:1', 2, 0n, 5n), hold('2:1', 2, 6n, 9n))).toBe(1)
})

test('news of an ending may take a moment, and no more than that, and only for whom it concerns', () => {
  const ending = { pid: 1, from: 1n * ms, to: 2n * ms }
  const found = (to: bigint, pid: number | 'all') =>
    judge([hold('1:1', 1, 0n, to), hold('2:1', 2, 4n, 9n)], [{ ...ending, pid }]).violations.length
  expect(found(5n, 1)).toBe(0)
  expect(found(5n, 'all')).toBe(0)
  expect(found(5n, 2)).toBe(1)
  expect(found(900n, 1)).toBe(0)
  expect(found(1_100n, 1)).toBe(1)
})

test('permits that take more places than there are, are found', () => {
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
