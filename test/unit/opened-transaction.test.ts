import { afterEach, expect, test, vi } from 'vitest'
import { UsageError } from '../../src/base/index.js'
import { inOpenedTransaction } from '../../src/once/opened-transaction.js'
import type { CallerTransaction } from '../../src/postgres/index.js'
import { caught } from '../setup/facts.js'

afterEach(() => {
  vi.useRealTimers()
})

const tx: CallerTransaction = { query: async () => ({ rows: [] }) }
const neverRuns = () => expect.unreachable('the work runs')
const expected = 'Expected the option transaction to call its argument once and to wait for its promise, but '

test('the work receives the transaction, and the promise resolves after the function has committed', async () => {
  const steps: unknown[] = []
  const opened = inOpenedTransaction(
    async (work) => {
      await work(tx)
      steps.push('commit')
    },
    async (_, given) => void steps.push(given),
  )
  await opened
  expect(steps).toEqual([tx, 'commit'])
})

test('an error of the function is thrown unchanged', async () => {
  const failure = new Error('no commit')
  const open = async (work: (given: CallerTransaction) => Promise<void>) => {
    await work(tx)
    throw failure
  }
  await expect(inOpenedTransaction(open, async () => {})).rejects.toBe(failure)
  const throws = () => {
    throw failure
  }
  await expect(inOpenedTransaction(throws, async () => {})).rejects.toBe(failure)
})

test.each([
  ['hides', () => {}],
  ['replaces', () => Promise.reject(new Error('of the function'))],
])('an error of the work is thrown if the function %s it', async (_, onError) => {
  const failure = new Error('of the work')
  const open = (work: (given: CallerTransaction) => Promise<void>) => work(tx).catch(onError)
  await expect(inOpenedTransaction(open, () => Promise.reject(failure))).rejects.toBe(failure)
})

test('a function that does not call its argument is refused', async () => {
  const error = await caught(
    UsageError,
    inOpenedTransaction(async () => {}, neverRuns),
  )
  expect(error.message).toBe(`${expected}it ended without calling its argument`)
  expect(error.hint).toContain('(work) => db.transaction(work)')
})

test('a function that opens no transaction within 60 s is refused, and a later transaction is rolled back', async () => {
  vi.useFakeTimers()
  let callLate = (): Promise<void> => Promise.resolve()
  const opened = inOpenedTransaction(
    (work) =>
      new Promise(() => {
        callLate = () => work(tx)
      }),
    neverRuns,
  )
  const refused = caught(UsageError, opened)
  await vi.advanceTimersByTimeAsync(60_000)
  const error = await refused
  expect(error.message).toBe(`${expected}it opened no transaction within 60 s`)
  expect(await caught(UsageError, callLate())).toBe(error)
})

test('a second call of the argument is refused, and the work runs once', async () => {
  let runs = 0
  const opened = inOpenedTransaction(
    async (work) => {
      await work(tx)
      await work(tx)
    },
    async () => void runs++,
  )
  const error = await caught(UsageError, opened)
  expect(error.message).toBe(`${expected}it called its argument twice`)
  expect(runs).toBe(1)
})

test('a function that does not wait for its argument is refused', async () => {
  const opened = inOpenedTransaction(
    async (work) => void work(tx),
    () => new Promise(() => {}),
  )
  expect((await caught(UsageError, opened)).message).toBe(`${expected}it did not wait`)
})

test('a transaction of an unknown library is refused', async () => {
  const open = (work: (given: CallerTransaction) => Promise<void>) => work({ begin: 'now' } as never)
  const error = await caught(UsageError, inOpenedTransaction(open, neverRuns))
  expect(error.message).toMatch(/^Expected an open transaction, got /)
})
