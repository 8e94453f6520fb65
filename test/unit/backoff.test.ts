import { afterEach, expect, test, vi } from 'vitest'
import { backoffMs } from '../../src/base/index.js'

afterEach(() => vi.restoreAllMocks())

function atPoint(random: number, attempt: number): number {
  vi.spyOn(Math, 'random').mockReturnValue(random)
  return backoffMs(attempt, 100, 5_000)
}

test('backoffMs doubles up to the maximum', () => {
  const longest = [0, 1, 2, 5, 6, 60, 5_000].map((attempt) => atPoint(1, attempt))
  expect(longest).toEqual([100, 200, 400, 3_200, 5_000, 5_000, 5_000])
})

test('backoffMs is at least half of the longest backoff of the attempt', () => {
  expect(atPoint(0, 3)).toBe(400)
  expect(atPoint(0.5, 3)).toBe(600)
})
