import { onTestFinished } from 'vitest'
import type { Holdfast, ImplementedJob, Worker, WorkOptions } from '../../src/index.js'
import { sql, until } from '../setup/facts.js'

export { gate } from '../setup/facts.js'

/** The two modes of an instance: with an anchor and without. */
export const anchorModes = [
  { name: 'with an anchor', anchor: 'required' },
  { name: 'without an anchor', anchor: 'none' },
] as const

/** Starts a worker and closes it when the test has finished. */
export function work(holdfast: Holdfast, definitions: ImplementedJob[], options?: WorkOptions): Worker {
  const worker = holdfast.jobs.work(definitions, options)
  onTestFinished(() => worker.close({ within: 100 }))
  return worker
}

type Query = Holdfast['context']['database']['query']

/** Passes the instance's statements to `handle` until the test has finished. */
export function intercept(
  { context }: Holdfast,
  handle: (run: () => ReturnType<Query>, ...given: Parameters<Query>) => unknown,
) {
  const { database } = context
  const { query } = database
  onTestFinished(() => void Object.assign(database, { query }))
  Object.assign(database, { query: (...given: Parameters<Query>) => handle(() => query(...given), ...given) })
}

/** Waits until the job is in the state and returns the job. */
export async function untilState(holdfast: Holdfast, id: number, state: string) {
  await until(`job ${id} is ${state}`, async () => (await holdfast.jobs.find(id))?.state === state)
  return (await holdfast.jobs.find(id))!
}

/** Gives the whole claim that contains the job to another epoch, as if that epoch had taken over and claimed its jobs. */
export function giveClaimAway(url: string, id: number) {
  return sql(url, "update holdfast.claim set fence = nextval('holdfast.fence'), session = 0 where $1 = any(ids)", [id])
}

/** Returns the number of rows in each table that can contain jobs, of one job or of all jobs. */
export async function rowsOf(url: string, id?: number): Promise<Record<string, number>> {
  const [row] = await sql<Record<string, number>>(
    url,
    `select
       (select count(*)::int from holdfast.job_live where id = coalesce($1, id)) as job,
       (select count(*)::int from holdfast.waiting where id = coalesce($1, id)) as waiting,
       (select count(*)::int from holdfast.claim) as claim,
       (select count(*)::int from holdfast.worker) as worker,
       (select count(*)::int from holdfast.job_history where id = coalesce($1, id)) as history`,
    [id],
  )
  return row!
}
