import {
  type CallerExecutor,
  type CallerTransaction,
  type Executor,
  type HandlerTransaction,
  markOwnTransaction,
  type Transaction,
} from '../postgres/index.js'
import { type AnswerCodec, encodeFailure, isRecordable } from './answer.js'
import { OnceLostError } from './errors.js'
import type { AttemptResult, FinishedRun, KeyAttempt } from './key-attempt.js'
import { newClaim, type ParsedOptions, runWork, type Work } from './run.js'
import type { OnceStore } from './store.js'

/** Transaction of the caller. */
export interface Caller {
  readonly executor: CallerExecutor
  /** Transaction that the work receives. By default, the work receives a `Transaction`. */
  readonly given: CallerTransaction | undefined
}

/**
 * Claims the key, runs the work and records the result after a savepoint in the caller's transaction. Before the
 * commit, other sessions cannot see the row, but they can detect the transaction lock on the key. A commit records the
 * result, and a rollback frees the key.
 */
export async function runInTransaction<T>(
  { executor, given }: Caller,
  store: OnceStore,
  options: ParsedOptions,
  work: Work<T>,
  codec: AnswerCodec<T>,
  attempt: KeyAttempt,
  onClaimed: () => void,
): Promise<AttemptResult | FinishedRun<T>> {
  const claim = newClaim(options, 0)
  let failure: { error: unknown } | undefined
  try {
    return await executor.inSavepoint(async (tx, runNested) => {
      const claimed = await store.claimIn(tx, claim)
      if (claimed.state !== 'claimed') return claimed as AttemptResult
      onClaimed()
      attempt.report({ state: 'in-flight', fingerprint: claim.fingerprint })
      const delivery = {
        key: claim.key,
        tx: (given ? Promise.resolve(given) : transactionOf(tx)) as HandlerTransaction,
        signal: new AbortController().signal,
        fence: claimed.fence,
      }
      const { value, written } = await runNested(() => runWork(work, delivery, codec)).catch((error) => {
        failure = { error }
        throw error
      })
      const end = await store.finishIn(tx, { ...claim, state: 'done', written })
      if (end !== 'recorded') throw new OnceLostError(claim.key, claimed.fence, new Error('its row was removed'))
      return { state: 'finished', value }
    })
  } catch (error) {
    if (failure && options.recordsFailures && isRecordable(failure.error)) {
      const written = encodeFailure(failure.error)
      await executor.inSavepoint(async (tx) => {
        const claimed = await store.claimIn(tx, claim)
        if (claimed.state === 'claimed') await store.finishIn(tx, { ...claim, state: 'failed', written })
      })
    }
    throw error
  }
}

function transactionOf(tx: Executor): Transaction {
  return markOwnTransaction({
    query: async <Row>(text: string, values?: readonly unknown[]) => ({ rows: await tx.query<Row>(text, values) }),
  })
}
