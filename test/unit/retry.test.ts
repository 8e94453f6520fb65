import { expect, test, vi } from 'vitest'
import { retryUntilRecorded } from '../../src/base/index.js'

test('retryUntilRecorded repeats the work until it succeeds', async () => {
  const work = vi
    .fn()
    .mockRejectedValueOnce(new Error('1'))
    .mockRejectedValueOnce(new Error('2'))
    .mockResolvedValue('done')
  const onError = vi.fn(() => 1)
  expect(await retryUntilRecorded(new AbortController().signal, work, onError)).toBe('done')
  expect(onError.mock.calls).toEqual([[new Error('1')], [new Error('2')]])
})

test('retryUntilRecorded stops if onError returns undefined, and throws if onError throws', async () => {
  const { signal } = new AbortController()
  const work = vi.fn().mockRejectedValue(new Error('refused'))
  expect(await retryUntilRecorded(signal, work, () => undefined)).toBeUndefined()
  const rethrow = (error: unknown) => {
    throw error
  }
  await expect(retryUntilRecorded(signal, work, rethrow)).rejects.toThrow('refused')
  expect(work).toHaveBeenCalledTimes(2)
})

test('retryUntilRecorded tries once more if its signal aborts during a pause', async () => {
  const closing = new AbortController()
  const work = vi.fn().mockRejectedValueOnce(new Error('away')).mockResolvedValue('done')
  const retrying = retryUntilRecorded(closing.signal, work, () => 60_000)
  await vi.waitUntil(() => work.mock.calls.length === 1)
  closing.abort()
  expect(await retrying).toBe('done')
})
