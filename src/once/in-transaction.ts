import { type CallerExecutor, type Executor, ownTransaction } from '../postgres/index.js'
import { type Form, isAnswer, writeFailure } from './answer.js'
import { OnceLostError } from './errors.js'
import type { Ledger } from './ledger.js'
import { type Asked, claimOf, outcomeOf, type Work } from './run.js'
import type { Transaction } from './transaction.js'
import type { Finished, Found, Turn } from './turn.js'

/**
 * Claims, works and records behind a savepoint of the caller's transaction. Its row is seen by nobody else before the
 * commit, when it is done; until then others see the transaction lock on the key. So PostgreSQL itself vouches for the
 * run, and whatever ends the transaction frees the key or records the answer.
 */
export async function runInTransaction<T>(
  caller: CallerExecutor,
  ledger: Ledger,
  asked: Asked,
  work: Work<T>,
  form: Form<T>,
  turn: Turn,
): Promise<Found | Finished<T>> {
  const claim = claimOf(asked, 0)
  let failure: { error: unknown } | undefined
  try {
    return await caller.attempt(async (tx) => {
      const seen = await ledger.claimIn(tx, claim)
      if (seen.state !== 'claimed') return seen as Found
      turn.tell({ state: 'in-flight', fingerprint: claim.fingerprint })
      const delivery = { key: claim.key, tx: queryOf(tx), signal: new AbortController().signal, fence: seen.fence }
      const { value, written } = await outcomeOf(work, delivery, form).catch((error) => {
        failure = { error }
        throw error
      })
      const isRecorded = await ledger.finishIn(tx, { ...claim, state: 'done', written })
      if (!isRecorded) throw new OnceLostError(claim.key, seen.fence, new Error('its record is gone'))
      return { state: 'finished', value }
    })
  } catch (error) {
    if (failure && asked.recordsFailures && isAnswer(failure.error)) {
      const written = writeFailure(failure.error)
      await caller.attempt(async (tx) => {
        const seen = await ledger.claimIn(tx, claim)
        if (seen.state === 'claimed') await ledger.finishIn(tx, { ...claim, state: 'failed', written })
      })
    }
    throw error
  }
}

function queryOf(tx: Executor): Transaction {
  return ownTransaction({
    query: async <Row>(text: string, values?: readonly unknown[]) => ({ rows: await tx.query<Row>(text, values) }),
  })
}
