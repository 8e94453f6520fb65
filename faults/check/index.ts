// The judge compares the history and the tables with the guarantees. Each check returns the number of things that it checked and the
// violations: a sentence for each, and the shortest part of the history that shows the violation.
import type { QueryResult } from 'pg'
import { Observer } from '../../dist/observe/index.js'
import type { History } from '../history.ts'
import { changesKept } from './changes.ts'
import { permitsKept } from './holds.ts'
import { jobsEndOnce, noJobLost, noJobPassed, rateKept } from './jobs.ts'
import { type LinearizedCounts, linearizable } from './linearizable.ts'
import { noEventLost, noStepRepeated, oneEffectPerStep } from './steps.ts'
import { fencesGrow, oneEffect, oneJobPerTick, oneRun } from './tables.ts'

export type Query = (text: string, values?: unknown[]) => Promise<QueryResult['rows']>

/** Result of a check: the number of things that it checked, and the violations. */
export interface Verdict {
  count: number
  violations: { text: string; excerpt?: string[] }[]
}

export interface Violation {
  guarantee: string
  text: string
  excerpt: string[]
}

export interface Checked {
  checked: Record<string, number>
  violations: Violation[]
  counts: Record<string, number>
  linearized: LinearizedCounts
}

/** The guarantees, by their numbers in the design. */
export const guarantees = {
  1: 'one holder',
  2: 'later fences are larger',
  3: 'nothing is leaked',
  4: 'no job is lost',
  5: 'a job ends once',
  6: 'one run per tick, or one reason',
  7: 'one effect per delivery',
  8: 'never more permits than the limit',
  9: 'no silent downgrade',
  10: 'a step is recorded once',
  0: 'no unexpected error',
}

export async function check(
  history: History,
  { query, expiryMs }: { query: Query; expiryMs: number },
  unfinishedWork: string[],
): Promise<Checked> {
  const checked: Record<string, number> = {}
  const violations: Violation[] = []
  const record = (number: keyof typeof guarantees, { count, violations: found }: Verdict) => {
    checked[guarantees[number]] = (checked[guarantees[number]] ?? 0) + count
    for (const { text, excerpt = [] } of found) violations.push({ guarantee: guarantees[number], text, excerpt })
  }
  const { holders, writes, counts: linearized } = linearizable(history)
  record(1, holders)
  record(2, writes)
  record(8, permitsKept(history))
  record(3, { count: history.holds.length, violations: unfinishedWork.map((text) => ({ text })) })
  record(9, { count: history.counts.refused ?? 0, violations: [] })
  record(0, { count: 0, violations: [...history.unexpected.map(({ error }) => ({ text: error })), ...history.wrong] })
  record(2, await fencesGrow(query))
  record(7, await oneEffect(query, history))
  record(4, await noJobLost(query, history))
  record(4, await noJobPassed(query))
  record(10, noStepRepeated(history, expiryMs))
  record(10, await noEventLost(query, history))
  record(10, await oneEffectPerStep(query))
  record(8, await rateKept(query))
  // These checks need a history in which all work has ended.
  if (unfinishedWork.length === 0) {
    record(5, await jobsEndOnce(query))
    record(5, await changesKept(query, history))
    record(6, await oneRun(query))
    record(6, await oneJobPerTick(query))
    violations.push(...(await ownProof(query)))
  }
  return { checked, violations, counts: history.counts, linearized }
}

/** Runs Holdfast's own consistency check, which the dashboard shows. */
async function ownProof(query: Query): Promise<Violation[]> {
  // Dead instances' rows remain until the next call for their limit. The work has ended, so no such call follows.
  await query('select holdfast.limit_remove_dead(key) from (select distinct key from holdfast.permit) as used')
  const observer = new Observer({ read: query })
  const { invariants } = await observer.proof({ repairWithinMs: 0 })
  return invariants.flatMap(({ text, facts }) =>
    facts.map((fact) => ({ guarantee: `consistency check: ${text}`, text: fact, excerpt: [] })),
  )
}
