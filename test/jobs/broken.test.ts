// Tests errors in the worker itself, not in a handler and not in the database.
import { describe, expect, onTestFinished, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { waysOf } from '../setup/variants.js'
import { anchorModes, rowsOf, work } from './fixture.js'

type ChangeRows = (rows: Record<string, unknown>[]) => Record<string, unknown>[] | Promise<never>

/** Changes the result of the statement that claims jobs, as a bug would. */
function spoil(holdfast: Holdfast, change: ChangeRows) {
  const { database } = holdfast.context
  const { query } = database
  onTestFinished(() => void Object.assign(database, { query }))
  Object.assign(database, {
    async query(...given: Parameters<typeof query>) {
      const rows = await query<Record<string, unknown>>(...given)
      return given[0].includes('holdfast.job_claim(') ? change(rows) : rows
    },
  })
}

describe.each(waysOf(anchorModes))('$name', ({ name, ...options }) => {
  test('a worker that cannot read a job of its claim returns the claim, reports the error, and runs all jobs later', async () => {
    const url = await databaseUrl()
    const holdfast = await open({ url, ...options })
    const run: number[] = []
    const good = defineJob('good', { run: (_, { attempt }) => run.push(attempt) })
    const ids = await holdfast.jobs.enqueueMany(good, Array(20).fill(null))
    const failures: unknown[] = []
    holdfast.on('worker.failed', ({ error }) => failures.push(error))
    let spoilt = 0
    spoil(holdfast, (rows) =>
      rows.map((row) => {
        if (typeof row.jobs !== 'string' || spoilt >= 3) return row
        const jobs = JSON.parse(row.jobs)
        if (jobs.length < 2) return row
        spoilt++
        // This worker does not know the kind.
        jobs[1][1] = 99
        return { ...row, jobs: JSON.stringify(jobs) }
      }),
    )
    work(holdfast, [good], { concurrency: 5 })
    await until('all jobs are done', async () => (await rowsOf(url)).history === 20)
    expect(spoilt).toBe(3)
    expect(failures.length).toBeGreaterThanOrEqual(3)
    expect(failures[0]).toBeInstanceOf(TypeError)
    // A job that never began does not count as an attempt.
    expect(run).toEqual(Array(20).fill(1))
    await until('no claim is left', async () => (await rowsOf(url)).claim === 0)
    await until('the instance is up', async () => (await holdfast.health()).status === 'up')
    expect((await holdfast.jobs.find(ids[0]!.id))?.state).toBe('done')
  })

  test('a worker whose loop hangs is reported as WORKER_STALLED', { timeout: 60_000 }, async () => {
    const holdfast = await open({ url: await databaseUrl(), expiry: '2s', ...options })
    const good = defineJob('good', { run: () => {} })
    const worker = holdfast.jobs.work([good])
    await worker.ready()
    let release = () => {}
    const hung = new Promise<never>((_, reject) => {
      release = () => reject(new Error('released'))
    })
    hung.catch(() => {})
    spoil(holdfast, () => hung)
    const { reasons } = await until(
      'the instance is degraded',
      async () => {
        const health = await holdfast.health()
        return health.status === 'degraded' && health
      },
      30_000,
    )
    expect(reasons).toEqual([
      { code: 'WORKER_STALLED', message: 'The worker of "default" is not starting the jobs that it has claimed' },
    ])
    release()
  })
})
