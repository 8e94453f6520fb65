import { getEventListeners } from 'node:events'
import { expect, test, vi } from 'vitest'
import { pause, whenAborted } from '../../src/base/index.js'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

test('calls back with the reason, once', () => {
  const controller = new AbortController()
  const onAbort = vi.fn()
  whenAborted(controller.signal, onAbort)
  controller.abort('enough')
  controller.abort('again')
  expect(onAbort.mock.calls).toEqual([['enough']])
})

test('calls back at once when it has aborted before', () => {
  const onAbort = vi.fn()
  whenAborted(AbortSignal.abort('before'), onAbort)
  expect(onAbort.mock.calls).toEqual([['before']])
})

test('forgets when told so, and leaves no listener', () => {
  const controller = new AbortController()
  const onAbort = vi.fn()
  const forget = whenAborted(controller.signal, onAbort)
  expect(listeners(controller.signal)).toBe(1)
  forget()
  expect(listeners(controller.signal)).toBe(0)
  controller.abort()
  expect(onAbort).not.toHaveBeenCalled()
})

test('no signal is a signal that never aborts', () => {
  expect(() => whenAborted(undefined, () => {})()).not.toThrow()
})

test('a pause ends with its time and leaves no listener', async () => {
  const { signal } = new AbortController()
  await pause(1, signal)
  expect(listeners(signal)).toBe(0)
})

test('a pause ends at once when the signal aborts, or has', async () => {
  const controller = new AbortController()
  const paused = pause(600_000, controller.signal)
  controller.abort()
  await paused
  await pause(600_000, controller.signal)
})
