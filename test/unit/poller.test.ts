import { expect, test, vi } from 'vitest'
import { HoldfastError, Poller, pause } from '../../src/base/index.js'
import { until } from '../setup/facts.js'

/** Makes a poller of `things`. Each poll removes one thing. */
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

test('a poller polls while it is needed, and polls again after a later start', async () => {
  const { things, poll, poller } = pollerOf()
  poller.start()
  expect(poll).toHaveBeenCalledTimes(0)
  things.push(undefined, undefined)
  poller.start()
  poller.start()
  await until('the poller has removed all things', () => things.length === 0)
  await pause(20)
  expect(poll).toHaveBeenCalledTimes(2)
  things.push(undefined)
  poller.start()
  await until('the poller has removed all things', () => things.length === 0)
  expect(poll).toHaveBeenCalledTimes(3)
  await poller.close()
})

// The loop reads its condition for the last time. Then the test calls `start`. Then the loop ends. The poller must not miss the `start`.
test.each([0, 1, 2, 3, 4, 5, 6])(
  'a poller polls again if start is called %i microtasks after the last poll',
  async (turns) => {
    const { things, poll, poller } = pollerOf()
    poll.mockImplementation(async () => {
      things.shift()
    })
    things.push(undefined)
    poller.start()
    for (let n = 0; n < turns; n++) await undefined
    things.push(undefined)
    poller.start()
    await until('the poller has removed all things', () => things.length === 0)
    await poller.close()
  },
)

test('a wake-up ends the pause and resets the counters of failures and polls', async () => {
  const pauseMs = vi.fn(() => 60_000)
  const { things, poll, poller } = pollerOf({ pauseMs })
  things.push(undefined, undefined, undefined, undefined)
  poller.start()
  for (const polls of [1, 2, 3]) {
    await until('the poller pauses', () => pauseMs.mock.calls.length === polls)
    poller.wake()
  }
  await until('the poller has polled four times', () => poll.mock.calls.length === 4)
  expect(pauseMs.mock.calls).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
  ])
  await poller.close()
})

test('pauseMs receives the number of consecutive failures and of polls', async () => {
  const pauseMs = vi.fn(() => 1)
  const { things, poller } = pollerOf({ pauseMs })
  things.push(undefined, new Error('1'), new Error('2'), undefined, undefined)
  poller.start()
  await until('the poller has paused four times', () => pauseMs.mock.calls.length === 4)
  expect(pauseMs.mock.calls).toEqual([
    [0, 0],
    [1, 1],
    [2, 2],
    [0, 3],
  ])
  await poller.close()
})

test('a poller reports only failures that are not retryable, and shows each failure until the next success', async () => {
  const { things, onError, poller } = pollerOf({ pauseMs: () => 60_000 })
  const retryable = new HoldfastError('away', { code: 'DATABASE_UNREACHABLE', retryable: true })
  const permanent = new Error('missing privilege')
  things.push(retryable, permanent, undefined, undefined)
  poller.start()
  await until('the poller shows the retryable failure', () => poller.failure?.error === retryable)
  expect(onError).not.toHaveBeenCalled()
  poller.wake()
  await until('the poller shows the permanent failure', () => poller.failure?.error === permanent)
  expect(onError.mock.calls).toEqual([[permanent]])
  poller.wake()
  await until('the poller shows no failure', () => poller.failure === undefined)
  await poller.close()
})

test('close ends a pause, waits for the poll in flight, and prevents further polls', async () => {
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
