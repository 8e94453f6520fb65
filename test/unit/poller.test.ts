import { expect, test, vi } from 'vitest'
import { HoldfastError, Poller, pause } from '../../src/base/index.js'
import { until } from '../setup/facts.js'

/** A poller of `things`, each of which a poll removes. */
function pollerOf(options: { pauseMs?: (failures: number, polls: number) => number; pausesFirst?: boolean } = {}) {
  const things: (Error | undefined)[] = []
  const poll = vi.fn(async () => {
    const thing = things.shift()
    await pause(1)
    if (thing) throw thing
  })
  const onError = vi.fn()
  const poller = new Poller({ isNeeded: () => things.length > 0, poll, onError, pauseMs: () => 1, ...options })
  return { things, poll, onError, poller }
}

test('a poller polls while there is something to poll for, and starts again later', async () => {
  const { things, poll, poller } = pollerOf()
  poller.start()
  expect(poll).toHaveBeenCalledTimes(0)
  things.push(undefined, undefined)
  poller.start()
  poller.start()
  await until('The poller', () => things.length === 0)
  await pause(20)
  expect(poll).toHaveBeenCalledTimes(2)
  things.push(undefined)
  poller.start()
  await until('The poller', () => things.length === 0)
  expect(poll).toHaveBeenCalledTimes(3)
  await poller.close()
})

// The loop reads its condition for the last time. Then `start` is called. Then the loop ends: it must not miss the `start`.
test.each([0, 1, 2, 3, 4, 5, 6])('a start %i microtasks after the last poll is not overlooked', async (turns) => {
  const { things, poll, poller } = pollerOf()
  poll.mockImplementation(async () => {
    things.shift()
  })
  things.push(undefined)
  poller.start()
  for (let n = 0; n < turns; n++) await undefined
  things.push(undefined)
  poller.start()
  await until('The poller', () => things.length === 0)
  await poller.close()
})

test('a wake-up ends the pause, and the pauses begin to grow again', async () => {
  const pauseMs = vi.fn(() => 60_000)
  const { things, poll, poller } = pollerOf({ pauseMs })
  things.push(undefined, undefined, undefined, undefined)
  poller.start()
  for (const polls of [1, 2, 3]) {
    await until('The poller', () => pauseMs.mock.calls.length === polls)
    poller.wake()
  }
  await until('The poller', () => poll.mock.calls.length === 4)
  expect(pauseMs.mock.calls).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
  ])
  await poller.close()
})

test('pauses are chosen by the number of failures and of polls', async () => {
  const pauseMs = vi.fn(() => 1)
  const { things, poller } = pollerOf({ pauseMs })
  things.push(undefined, new Error('1'), new Error('2'), undefined, undefined)
  poller.start()
  await until('The poller', () => pauseMs.mock.calls.length === 4)
  expect(pauseMs.mock.calls).toEqual([
    [0, 0],
    [1, 1],
    [2, 2],
    [0, 3],
  ])
  await poller.close()
})

test('only a failure that no retry can cure is reported, and every failure is shown until the next success', async () => {
  const { things, onError, poller } = pollerOf({ pauseMs: () => 60_000 })
  const passing = new HoldfastError('away', { code: 'AWAY', retryable: true })
  const lasting = new Error('missing right')
  things.push(passing, lasting, undefined, undefined)
  poller.start()
  await until('The poller', () => poller.failure?.error === passing)
  expect(onError).not.toHaveBeenCalled()
  poller.wake()
  await until('The poller', () => poller.failure?.error === lasting)
  expect(onError.mock.calls).toEqual([[lasting]])
  poller.wake()
  await until('The poller', () => poller.failure === undefined)
  await poller.close()
})

test('close ends a pause, waits for the poll that is under way, and lets no other begin', async () => {
  const { things, poll, poller } = pollerOf({ pauseMs: () => 60_000, pausesFirst: true })
  things.push(undefined, undefined)
  poller.start()
  await poller.close()
  expect(poll).not.toHaveBeenCalled()
  poller.start()
  expect(poll).not.toHaveBeenCalled()
  const other = pollerOf()
  other.things.push(new Error('late'), undefined)
  other.poller.start()
  await other.poller.close()
  expect(other.poll).toHaveBeenCalledTimes(1)
  expect(other.things).toHaveLength(1)
  expect(other.onError).not.toHaveBeenCalled()
})
