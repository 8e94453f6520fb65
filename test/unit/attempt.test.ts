import { expect, test } from 'vitest'
import { HoldfastError, type HoldfastErrorCode } from '../../src/base/index.js'
import { Attempt, type TransactionContext } from '../../src/once/index.js'
import type { Epoch } from '../../src/postgres/index.js'

class Failure extends HoldfastError {
  constructor(code: string, cause?: Error) {
    super(code, { code: code as HoldfastErrorCode, retryable: true, cause })
  }
}

class TestAttempt extends Attempt {
  lossError(cause?: Error): Failure {
    return new Failure('LOST', cause)
  }
}

function attemptOf() {
  const epoch = { trusted: true, loss: undefined as HoldfastError | undefined }
  return { epoch, attempt: new TestAttempt(epoch as Epoch, {} as TransactionContext) }
}

test('an attempt keeps only the first reason to stop, in its signal and in stopReason', () => {
  const { attempt } = attemptOf()
  const { signal } = attempt
  const [first, second] = [new Failure('TIMEOUT'), new Failure('CANCELLED')]
  attempt.stop(first)
  attempt.stop(second)
  expect(signal.reason).toBe(first)
  expect(attempt.stopReason).toBe(first)
  expect(attempt.isLost).toBe(false)
})

test('a loss replaces an earlier reason to stop, and no later reason replaces the loss', () => {
  const { attempt } = attemptOf()
  attempt.stop(new Failure('TIMEOUT'))
  attempt.lose()
  const reason = attempt.stopReason
  attempt.stop(new Failure('CANCELLED'))
  attempt.lose(new Error('again'))
  expect(attempt.isLost).toBe(true)
  expect(reason?.code).toBe('LOST')
  expect(attempt.stopReason).toBe(reason)
})

test('a signal is aborted if it is first read after the loss', () => {
  const { attempt } = attemptOf()
  attempt.lose()
  expect(attempt.signal.reason).toBe(attempt.stopReason)
})

test('reading the signal aborts it if the epoch is no longer trusted', () => {
  const { attempt, epoch } = attemptOf()
  const { signal } = attempt
  epoch.trusted = false
  epoch.loss = new Failure('SILENCE')
  expect(signal.aborted).toBe(false)
  expect(attempt.signal.reason.cause).toBe(epoch.loss)
  expect(attempt.isLost).toBe(true)
})

test('a transaction refuses queries if it is first used after the end of the run', async () => {
  const { attempt } = attemptOf()
  expect(attempt.sealed()).toBeUndefined()
  await expect(attempt.tx.query('select')).rejects.toThrow('The transaction of this run has ended')
})
