import type { RunTransaction } from '../once/index.js'
import { arrayLiteral, type Executor } from '../postgres/index.js'
import type { ClaimedJob } from './claims.js'
import type { JobsContext } from './context.js'
import { endingFor, type RecordResult } from './endings.js'
import { JobLostError } from './errors.js'
import type { DoneOutcome, EndedOutcome } from './outcomes.js'

/**
 * Records the outcome in the handler's transaction and commits. Throws if the commit fails or if its response is lost.
 * Throws a `JobLostError` if another worker owns the job.
 */
export async function commitOutcome(
  { store, followUps }: JobsContext,
  { id, claim }: ClaimedJob,
  transaction: RunTransaction,
  outcome: DoneOutcome | EndedOutcome,
): Promise<void> {
  let followUpNumbers: string | null = null
  const record = async (tx: Executor) => {
    const rows =
      outcome.event === 'job.done'
        ? await store.runIn<RecordResult>(tx, 'done', [
            arrayLiteral([id]),
            arrayLiteral([claim.fence]),
            outcome.result === undefined ? null : `[[${outcome.result}]]`,
            '{}',
          ])
        : await store.runIn<RecordResult>(tx, 'end', [JSON.stringify([endingFor(outcome.ending!)]), '{}'])
    const { recorded } = rows[0]!
    followUpNumbers = rows[0]!.numbers
    if (recorded !== null && recorded.length === 0) throw new JobLostError(id, claim.fence)
  }
  try {
    await transaction.commit(record)
    followUps.add(followUpNumbers)
  } catch (error) {
    // Looks for follow-ups in the database, because the commit may have succeeded although its response was lost.
    followUps.recheck()
    throw error
  }
}
