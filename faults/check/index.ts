// The judge: what must always be true, held against the history and the tables. Each check answers with how much it looked at, and with
// what speaks against it: a sentence, and the shortest part of the history that shows it.
import type { QueryResult } from 'pg'
import { Observer } from '../../dist/observe/index.js'
import type { History } from '../history.ts'
import { oneHolder, permitsKept } from './holds.ts'
import { jobsEndOnce, noJobLost, noJobPassed } from './jobs.ts'
import { fencesGrow, oneEffect, oneRun } from './tables.ts'

export type Query = (text: string, values?: unknown[]) => Promise<QueryResult['rows']>

/** How much a check looked at, and what speaks against it. */
export interface Verdict {
  count: number
  against: { says: string; story?: string[] }[]
}

export interface Violation {
  promise: string
  says: string
  story: string[]
}

export interface Checked {
  checked: Record<string, number>
  violations: Violation[]
  counts: Record<string, number>
}

/** By their numbers in the design. */
export const promises = {
  1: 'one holder',
  2: 'later fences are larger',
  3: 'nothing is leaked',
  4: 'no job is lost',
  5: 'a job ends once',
  6: 'one run per tick, or one reason',
  7: 'one effect per delivery',
  8: 'never more permits than the limit',
  9: 'no silent downgrade',
  0: 'nothing unexpected',
}

export async function check(history: History, { query }: { query: Query }, unrest: string[]): Promise<Checked> {
  const checked: Record<string, number> = {}
  const violations: Violation[] = []
  const record = (number: keyof typeof promises, { count, against }: Verdict) => {
    checked[promises[number]] = (checked[promises[number]] ?? 0) + count
    for (const { says, story = [] } of against) violations.push({ promise: promises[number], says, story })
  }
  record(1, oneHolder(history))
  record(8, permitsKept(history))
  record(3, { count: history.holds.length, against: unrest.map((says) => ({ says })) })
  record(9, { count: history.counts.refused ?? 0, against: [] })
  record(0, { count: 0, against: [...history.unexpected.map(({ error }) => ({ says: error })), ...history.wrong] })
  record(2, await fencesGrow(query))
  record(7, await oneEffect(query, history))
  record(4, await noJobLost(query, history))
  record(4, await noJobPassed(query))
  // Of what has not come to its end nothing more can be said.
  if (unrest.length === 0) {
    record(5, await jobsEndOnce(query))
    record(6, await oneRun(query))
    violations.push(...(await ownProof(query)))
  }
  return { checked, violations, counts: history.counts }
}

/** What the dashboard shows as the proof must see nothing either. */
async function ownProof(query: Query): Promise<Violation[]> {
  // The rows of dead instances remain until the next call of their limit, and the work has ended, so no call follows.
  await query('select holdfast.limit_remove_dead(key) from (select distinct key from holdfast.permit) as used')
  const observer = new Observer({ read: query })
  const { invariants } = await observer.proof({ repairWithinMs: 0 })
  return invariants.flatMap(({ text, facts }) =>
    facts.map((fact) => ({ promise: `the proof: ${text}`, says: fact, story: [] })),
  )
}
