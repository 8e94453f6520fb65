// Runs the query of the page about claims as printed.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { gate, work } from '../jobs/fixture.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { root } from './lines.js'

function queryOfPage(): string {
  return /^```sql\n(.*?)^```/ms.exec(readFileSync(join(root, 'docs/concepts/claims.md'), 'utf8'))![1]!
}

interface ClaimRow {
  claim: string
  jobs: string[]
  kind: string
  instance: string
  claimed_at: Date
  present: boolean
}

test('the query for claims shows the instance of each running job, and whether the instance is present', async () => {
  const url = await databaseUrl()
  const [alive, killed, bystander] = [await open({ url }), await open({ url }), await open({ url })]
  const ending = gate()
  onTestFinished(ending.open)
  const claims = () => sql<ClaimRow>(url, queryOfPage())
  const define = (queue: string) => defineJob<unknown>(`send-${queue}`, { queue, run: () => ending.opened })
  expect(await claims()).toEqual([])

  const ids: string[] = []
  for (const [queue, holdfast] of [
    ['mail', alive],
    ['post', killed],
  ] as const) {
    work(holdfast, [define(queue)], { concurrency: 1 })
    const [running] = await bystander.jobs.enqueueMany(define(queue), [1, 2])
    ids.push(String(running!.id))
    await until('the job runs', async () => (await bystander.jobs.find(running!.id))?.state === 'running')
  }
  const rowOf = (at: number, kind: string, instance: string, present: boolean) => ({
    claim: expect.stringMatching(/^\d+$/),
    jobs: [ids[at]],
    kind,
    instance,
    claimed_at: expect.any(Date),
    present,
  })
  expect(await claims()).toEqual([rowOf(0, 'send-mail', alive.id, true), rowOf(1, 'send-post', killed.id, true)])

  // The lock keeps maintenance from returning the job before the query runs.
  const client = await sqlSession(url)
  await client.query('begin')
  await client.query("select pg_advisory_xact_lock(holdfast.lock_class('job maintenance'), 0)")
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, killed)])
  await until('the worker is not present', async () => (await claims()).some(({ present }) => !present))
  expect(await claims()).toContainEqual(rowOf(1, 'send-post', killed.id, false))
  await client.query('rollback')
  await until('the claim of the killed worker is deleted', async () => (await claims()).every(({ present }) => present))
})
