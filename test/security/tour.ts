// Calls every room as an application does. The role of the tour needs the same privileges as an application.
import type pg from 'pg'
import { expect } from 'vitest'
import { defineJob, type HoldfastOptions } from '../../src/index.js'
import { sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'

export async function tour(url: string, options: Partial<HoldfastOptions>): Promise<void> {
  const [one, other] = [await open({ url, ...options }), await open({ url, ...options })]
  const client = await sqlSession(url)
  const inTransaction = async (work: (tx: pg.Client) => Promise<unknown>) => {
    await client.query('begin')
    await work(client)
    await client.query('commit')
  }

  if (options.anchor !== 'none') {
    const lock = await one.locks.acquire(['city:london', 'city:paris'])
    expect(await other.locks.tryAcquire('city:paris')).toBeNull()
    await inTransaction((tx) => lock.guard(tx))
    await lock.release()
    await one.locks.with('report', { mode: 'shared', wait: '5s' }, () => {})
    expect((await one.locks.space('rooms')).at(7).label).toBe('rooms#7')
  }
  await inTransaction((tx) => one.locks.inTransaction(tx, 'user:42'))

  const lease = await one.leases.acquire('etl', { ttl: '5s' })
  expect(await other.leases.tryAcquire('etl')).toBeNull()
  await inTransaction((tx) => lease.guard(tx))
  await lease.extend('6s')
  await lease.release()

  const permit = await one.limits.acquire('export:42', { max: 1 })
  const next = other.limits.acquire('export:42', { max: 1, wait: '10s' })
  await permit.release()
  await (await next).release()
  expect(await one.limits.consume('api:7', { rate: '5/h' })).toMatchObject({ allowed: true })
  await one.limits.usage('export:42')

  expect(await one.once.run('stripe:1', () => 'paid')).toEqual({ status: 'done', value: 'paid' })
  expect(await other.once.run('stripe:1', () => 'again')).toEqual({ status: 'replayed', value: 'paid' })
  await inTransaction((tx) => one.once.inTransaction(tx, 'stripe:2', () => 'paid'))
  expect(await one.once.forget('stripe:1')).toBe(true)
  await one.once.sweep()

  const campaign = one.elections.campaign('indexer', ({ signal }) => until('the campaign closes', () => signal.aborted))
  await until('the name has a leader', async () => (await other.elections.leader('indexer')) !== null)
  await campaign.close()

  await one.shares.each('cities', ['london', 'paris'], { round: 'today' }, () => {})
  const assigned = new Set<string>()
  const assignment = one.shares.assign('feeds', ['a', 'b'], (resource) => void assigned.add(resource))
  await until('both resources are assigned', () => assigned.size === 2)
  await assignment.close()

  let ticks = 0
  for (const holdfast of [one, other]) {
    holdfast.schedules.add('books', { every: '1h' }, () => {
      ticks++
    })
  }
  await until('the schedule can be run', () => one.schedules.run('books').catch(() => null))
  await until('the schedule has run', () => ticks === 1)
  await other.schedules.pause('books')
  await other.schedules.resume('books')
  await other.schedules.override('books', { every: '2h' })
  await until('the run has ended', async () =>
    (await other.schedules.runs('books')).some((run) => 'state' in run && run.state === 'done'),
  )
  expect(await one.schedules.list()).toHaveLength(1)

  let fails = true
  const echo = defineJob('echo', { lanes: { max: 1 }, run: (input: unknown) => input })
  const broken = defineJob('broken', {
    queue: 'broken',
    retry: { attempts: 1 },
    run: (_: null, { log, progress }) => {
      log('a line')
      progress(0.5)
      if (fails) throw new Error('no')
    },
  })
  const worker = one.jobs.work([echo, broken])
  const jobs = [
    await other.jobs.enqueue(echo, { n: 1 }),
    await other.jobs.enqueue(echo, { n: 2 }, { delay: 50, priority: 2 }),
    await other.jobs.enqueue(echo, { n: 3 }, { lane: 'shop:7' }),
    await other.jobs.enqueue(echo, { n: 4 }, { unique: 'four' }),
    await other.jobs.enqueue(echo, { n: 5 }, { unique: { key: 'five', existing: 'replace' } }),
    ...(await other.jobs.enqueueMany(echo, [{ n: 6 }, { n: 7 }])),
  ]
  await inTransaction((tx) => other.jobs.enqueue(echo, { n: 8 }, { tx }))
  await inTransaction((tx) =>
    tx.query(`select holdfast.enqueue('default', 'echo', '{"n": 9}', namespace => $1)`, [other.namespace]),
  )
  for (const { id } of jobs) expect(await other.jobs.result(id, { wait: '15s' })).toMatchObject({})
  const flow = await other.jobs.enqueueWorkflow((workflow) => {
    const first = workflow.add(echo, 'first')
    workflow.add(echo, 'second', { after: [first] })
  })
  expect(await other.jobs.result(flow.jobs[1]!.id, { wait: '15s' })).toBe('second')
  const bad = await other.jobs.enqueue(broken, null)
  await until('the job is buried', async () => (await other.jobs.find(bad.id))?.state === 'buried')
  fails = false
  expect(await other.jobs.redrive('broken')).toBe(1)
  await until('the job is done', async () => (await other.jobs.find(bad.id))?.state === 'done')
  await other.jobs.pause('broken')
  const late = await other.jobs.enqueue(broken, null, { delay: '1h' })
  expect(await other.jobs.retry(late.id)).toBe(true)
  expect(await other.jobs.cancel(late.id)).toBe(true)
  await other.jobs.resume('broken')
  await worker.close()

  expect((await one.health()).status).toBe('up')
  await other.drain({ within: '5s' })
  for (const holdfast of [one, other]) await holdfast.close()
}
