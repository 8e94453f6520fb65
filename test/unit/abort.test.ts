import { getEventListeners } from 'node:events'
import { expect, test, vi } from 'vitest'
import { pause, whenAborted } from '../../src/base/index.js'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

test('whenAborted calls back once, with the reason', () => {
  const controller = new AbortController()
  const onAbort = vi.fn()
  whenAborted(controller.signal, onAbort)
  controller.abort('enough')
  controller.abort('again')
  expect(onAbort.mock.calls).toEqual([['enough']])
})

test('whenAborted calls back immediately if the signal is already aborted', () => {
  const onAbort = vi.fn()
  whenAborted(AbortSignal.abort('before'), onAbort)
  expect(onAbort.mock.calls).toEqual([['before']])
})

test('the function that whenAborted returns removes the listener', () => {
  const controller = new AbortController()
  const onAbort = vi.fn()
  const unsubscribe = whenAborted(controller.signal, onAbort)
  expect(listeners(controller.signal)).toBe(1)
  unsubscribe()
  expect(listeners(controller.signal)).toBe(0)
  controller.abort()
  expect(onAbort).not.toHaveBeenCalled()
})

test('whenAborted accepts undefined instead of a signal', () => {
  expect(() => whenAborted(undefined, () => {})()).not.toThrow()
})

test('pause resolves after its time and leaves no listener', async () => {
  const { signal } = new AbortController()
  await pause(1, signal)
  expect(listeners(signal)).toBe(0)
})

test('pause resolves immediately if the signal aborts or is already aborted', async () => {
  const controller = new AbortController()
  const paused = pause(600_000, controller.signal)
  controller.abort()
  await paused
  await pause(600_000, controller.signal)
})
