// Tests the endpoints for Prometheus and for health probes.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, inject, onTestFinished, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { fleetGauges, instanceGauges } from '../../src/telemetry/gauges.js'
import { healthHandler, metricsHandler, metricsText } from '../../src/telemetry/index.js'
import { type InstrumentName, instruments } from '../../src/telemetry/instruments.js'
import { prometheusName } from '../../src/telemetry/metric-totals.js'
import { gate, work } from '../jobs/fixture.js'
import { sql, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { readExposition } from './exposition.js'

/** Counts the queries of an instance. */
function countQueries(holdfast: Holdfast): () => number {
  const { database } = holdfast.context
  const query = database.query.bind(database)
  let count = 0
  Object.assign(database, {
    query: (...args: Parameters<typeof query>) => {
      count++
      return query(...args)
    },
  })
  return () => count
}

test('metricsHandler returns the metrics of the instance and the gauges of the fleet', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'shop "one"' })
  const metrics = metricsHandler(holdfast)
  const opened = gate()
  const slow = defineJob<unknown>('slow', { queue: 'mail', run: () => opened.opened })
  const fails = defineJob('fails', { queue: 'bad', retry: { attempts: 1 }, run: () => Promise.reject(new Error('no')) })
  await holdfast.jobs.enqueueMany(slow, [1, 2, 3])
  await holdfast.jobs.enqueue(slow, 4, { delay: '1h' })
  await holdfast.jobs.enqueue(fails, null)
  await sql(url, "update holdfast.job set enqueued_at = now() - interval '90 seconds' where payload::text = '3'")
  work(holdfast, [slow], { concurrency: 1 })
  work(holdfast, [fails])
  holdfast.schedules.add('often', { every: '1s' }, () => {})
  holdfast.schedules.add('never', { every: '365d' }, () => {})
  await until('a run of the schedule is done', async () =>
    (await holdfast.schedules.runs('often')).some((one) => one.kind === 'run' && one.state === 'done'),
  )
  await holdfast.schedules.pause('never')
  await holdfast.locks.acquire(['a', 'b'])
  await holdfast.leases.acquire('l')
  await holdfast.limits.acquire('p', { max: 5, weight: 3 })
  const lead = ({ signal }: { signal: AbortSignal }) => new Promise((end) => signal.addEventListener('abort', end))
  const campaign = holdfast.elections.campaign('indexer', lead)
  await until('the campaign leads', () => campaign.leads)
  await until('one job is running and one is buried', async () => {
    const [row] = await sql<{ is: boolean }>(
      url,
      `select (select count(*) from holdfast.job_running) >= 1
         and exists (select from holdfast.job_stopped where state = 'buried') as is`,
    )
    return row!.is
  })
  await holdfast.jobs.pause('bad')

  const queryCount = countQueries(holdfast)
  const response = await metrics(new Request('http://localhost/metrics'))
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const families = readExposition(await response.text())
  const samples = [...families.values()].flatMap((one) => one.samples)
  const found = (name: string, labels: Record<string, string> = {}) =>
    samples.find(
      (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
    )?.value
  const mail = { queue: 'mail' }
  expect(families.get('holdfast_instances')!.samples).toMatchObject([{ value: 1 }])
  expect(found('holdfast_queue_ready', mail)! + found('holdfast_queue_running', mail)!).toBe(3)
  expect(found('holdfast_queue_waiting', mail)).toBe(1)
  expect(found('holdfast_queue_buried', { queue: 'bad' })).toBe(1)
  expect(found('holdfast_queue_paused', { queue: 'bad' })).toBe(1)
  expect(found('holdfast_queue_workers', mail)).toBe(1)
  expect(found('holdfast_schedule_late_seconds', { schedule: 'never' })).toBeUndefined()
  expect(found('holdfast_schedule_paused', { schedule: 'never' })).toBe(1)
  expect(found('holdfast_schedule_last_success_timestamp_seconds', { schedule: 'often' })).toBeGreaterThan(
    Date.now() / 1000 - 60,
  )
  expect(found('holdfast_locks_held')).toBeGreaterThanOrEqual(2)
  expect(found('holdfast_leases_held')).toBe(1)
  expect(found('holdfast_permits_in_use')).toBe(3)
  expect(found('holdfast_instance_up')).toBe(1)
  expect(found('messaging_client_sent_messages_total', { holdfast_job_kind: 'slow' })).toBe(4)
  expect(found('messaging_process_duration_seconds_count', { holdfast_outcome: 'buried' })).toBe(1)
  // The call to `acquire`, and the candidacy, which also acquires a lock.
  expect(found('holdfast_lock_wait_duration_seconds_count', { holdfast_outcome: 'acquired' })).toBe(2)
  const known = [
    ...Object.keys(fleetGauges),
    ...Object.keys(instanceGauges),
    ...(Object.keys(instruments) as InstrumentName[]).map(prometheusName),
  ]
  for (const name of families.keys()) expect(known).toContain(name)
  const gauges = Object.entries({ ...instanceGauges, ...fleetGauges })
  for (const [name, { labels }] of gauges) {
    expect(Object.keys(families.get(name)?.samples[0]?.labels ?? { none: name }), name).toEqual(labels)
  }
  expect(found('holdfast_election_leading', { election: 'indexer' })).toBe(1)

  // Many requests for metrics cause only few queries.
  const before = queryCount()
  expect(before).toBeGreaterThan(0)
  await Promise.all(Array.from({ length: 50 }, () => metricsText(holdfast)))
  // The queries of the instance's schedules and jobs are also counted.
  expect(queryCount() - before).toBeLessThan(100)
  opened.open()

  // A candidate that does not lead reports 0.
  const follower = await open({ url, namespace: holdfast.namespace })
  await follower.elections.campaign('indexer', lead).ready()
  const leading = readExposition(await metricsText(follower)).get('holdfast_election_leading')!.samples
  expect(leading).toMatchObject([{ labels: { election: 'indexer' }, value: 0 }])

  // The gauge shows the age of the oldest ready job, although no worker serves the queue.
  const quiet = await open({ url, namespace: 'quiet' })
  await quiet.jobs.enqueue(slow, 'old')
  await sql(url, "update holdfast.job set enqueued_at = now() - interval '90 seconds' where payload::text = '\"old\"'")
  await quiet.jobs.enqueue(slow, 'new')
  const oldest = readExposition(await metricsText(quiet)).get('holdfast_queue_oldest_ready_seconds')!.samples
  expect(oldest).toMatchObject([{ labels: mail }])
  expect(oldest[0]!.value).toBeGreaterThanOrEqual(90)
  expect((await metrics(new Request('http://localhost/metrics', { method: 'POST' }))).status).toBe(405)
})

test('the live probe succeeds without a session and a database, and the ready probe fails without a database', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const name = new URL(url).pathname.slice(1)
  const holdfast = await open({ url })
  const health = healthHandler(holdfast)
  const server = createServer((request, response) => void health.node(request, response)).listen(0)
  onTestFinished(() => void server.close())
  const at = `http://localhost:${(server.address() as AddressInfo).port}`
  const probe = async (path: string) => {
    const response = await fetch(at + path)
    return { status: response.status, body: (await response.json()) as { status: string; reasons?: string[] } }
  }
  const queryCount = countQueries(holdfast)
  const countedFrom = performance.now()
  expect(await holdfast.health()).toMatchObject({
    status: 'up',
    reasons: [],
    instance: holdfast.id,
    databaseMs: expect.any(Number),
  })
  await Promise.all(Array.from({ length: 20 }, () => probe('/health/ready')))
  expect(queryCount()).toBeLessThanOrEqual(1 + (performance.now() - countedFrom) / 3_000)
  expect(await probe('/health/live')).toEqual({ status: 200, body: { status: 'alive' } })

  const adminUrl = inject('adminUrl')
  const allow = (is: boolean) => sql(adminUrl, `alter database "${name}" allow_connections ${is}`)
  onTestFinished(async () => void (await allow(true)))

  // While the instance reconnects, it is ready and degraded. The connections of its pool remain open.
  const anchor = await anchorPid(url, holdfast)
  await allow(false)
  await sql(adminUrl, 'select pg_terminate_backend($1)', [anchor])
  const reconnecting = await until('the instance is degraded', async () => {
    const response = await probe('/health/ready')
    return response.body.status === 'degraded' && response
  })
  expect(reconnecting).toMatchObject({ status: 200, body: { reasons: ['RECONNECTING'] } })
  await allow(true)
  await until('the instance is up', async () => (await holdfast.health()).status === 'up')

  // The database refuses all connections.
  await allow(false)
  await sql(adminUrl, 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
  const down = await until('the instance is down', async () => {
    const response = await probe('/health/ready')
    return response.status === 503 && response
  })
  expect(down.body).toMatchObject({ status: 'down', reasons: ['DATABASE_UNREACHABLE', 'RECONNECTING'] })
  expect(JSON.stringify(down.body)).not.toContain(name)
  expect((await probe('/health/live')).status).toBe(200)
  const families = readExposition(await metricsText(holdfast))
  expect(families.get('holdfast_database_up')!.samples).toMatchObject([{ value: 0 }])
  expect(families.has('holdfast_instances')).toBe(false)
  await allow(true)
  await until('the instance is ready again', async () => (await probe('/health/ready')).status === 200)

  // A draining instance starts no new work and is not ready. The drain ends immediately, because nothing is running.
  await until('the instance is up again', async () => (await holdfast.health()).status === 'up')
  await holdfast.drain()
  expect(await probe('/health/ready')).toMatchObject({
    status: 503,
    body: { status: 'degraded', reasons: ['DRAINING'] },
  })
  expect((await probe('/health/live')).status).toBe(200)
  const closing = holdfast.close()
  expect(await probe('/health/ready')).toMatchObject({ status: 503, body: { reasons: ['CLOSING'] } })
  await closing
  expect((await probe('/health/live')).status).toBe(200)
})
