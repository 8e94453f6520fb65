// Triggers every event once and checks its properties.
import { expect, test } from 'vitest'
import { eventNames } from '../../src/base/index.js'
import {
  defineJob,
  type EventName,
  FingerprintMismatchError,
  type HoldfastEvents,
  JobOutcome,
} from '../../src/index.js'
import { prometheusLabel } from '../../src/telemetry/exposition.js'
import { metricsText } from '../../src/telemetry/index.js'
import { type Instrument, type InstrumentName, instruments } from '../../src/telemetry/instruments.js'
import { prometheusName } from '../../src/telemetry/metric-totals.js'
import { gate, work } from '../jobs/fixture.js'
import { caught, sql, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'
import { readExposition } from './exposition.js'

type ReceivedEvents = { [Name in EventName]?: HoldfastEvents[Name][] }

test('every event is emitted with its properties, and the metrics have the names and labels of their definitions', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const one = await open({ url })
  await metricsText(one) // starts counting
  const received: ReceivedEvents = {}
  const listen = <Name extends EventName>(name: Name) =>
    one.on(name, (event) => {
      const before = received[name] as HoldfastEvents[Name][] | undefined
      if (before) before.push(event)
      else received[name] = [event] as ReceivedEvents[Name]
    })
  for (const name of eventNames) listen(name)
  const untilReceived = <Name extends EventName>(name: Name): Promise<HoldfastEvents[Name]> =>
    until(`${name} is emitted`, () => received[name]?.[0] as HoldfastEvents[Name] | undefined)

  // Locks and leases.
  const lock = await one.locks.acquire(['a', 'b'])
  expect(received['lock.acquired']).toMatchObject([{ names: ['a', 'b'], mode: 'exclusive', fence: lock.fence }])
  expect(await one.locks.tryAcquire('a')).toBeNull()
  expect(received['lock.refused']).toMatchObject([{ names: ['a'], mode: 'exclusive' }])
  await lock.release()
  await lock.release()
  expect(received['lock.released']).toMatchObject([{ names: ['a', 'b'], fence: lock.fence }])
  const lease = await one.leases.acquire('l', { ttl: '30s' })
  expect(received['lease.acquired']).toMatchObject([{ name: 'l', fence: lease.fence }])
  expect(await one.leases.tryAcquire('l')).toBeNull()
  expect(received['lease.refused']).toMatchObject([{ name: 'l' }])
  await lease.release()
  expect(received['lease.released']).toMatchObject([{ name: 'l', fence: lease.fence }])
  const expired = await one.leases.acquire('l', { ttl: '30s' })
  await sql(url, "update holdfast.lease set token = 'another', fence = fence + 1")
  await caught(Error, expired.extend())
  expect(received['lease.lost']).toMatchObject([{ name: 'l', fence: expired.fence, reason: { code: 'LEASE_LOST' } }])

  // Limits and rates.
  const permit = await one.limits.acquire('p', { max: 2, weight: 2 })
  expect(received['limit.acquired']).toMatchObject([{ name: 'p', weight: 2, fence: permit.fence }])
  expect(await one.limits.tryAcquire('p', { max: 2 })).toBeNull()
  expect(received['limit.refused']).toMatchObject([{ name: 'p', weight: 1, inUse: 2 }])
  await permit.release()
  expect(received['limit.released']).toMatchObject([{ name: 'p', weight: 2 }])
  await one.limits.consume('r', { rate: '1/h' })
  await one.limits.consume('r', { rate: '1/h' })
  expect(received['rate.refused']).toMatchObject([{ name: 'r', cost: 1 }])

  // Once.
  const inFlight = gate()
  const first = gate()
  const running = one.once.run('k', () => {
    first.open()
    return inFlight.opened
  })
  await first.opened
  expect(await one.once.run('k', () => 0)).toEqual({ status: 'in-progress' })
  expect(received['delivery.refused']![0]).toEqual({ key: 'k' })
  inFlight.open()
  await running
  expect(received['delivery.done']).toMatchObject([{ key: 'k', durationMs: expect.any(Number) }])
  await one.once.run('k', () => 0)
  expect(received['delivery.replayed']).toEqual([{ key: 'k' }])
  await one.once.run('m', { fingerprint: 'one' }, () => 0)
  await caught(
    FingerprintMismatchError,
    one.once.run('m', { fingerprint: 'another' }, () => 0),
  )
  expect(received['delivery.mismatched']).toEqual([{ key: 'm' }])
  await caught(
    TypeError,
    one.once.run('f', () => Promise.reject(new TypeError('no'))),
  )
  expect(received['delivery.failed']).toMatchObject([{ key: 'f', error: { message: 'no' } }])

  // Elections and shares.
  const campaign = one.elections.campaign(
    'e',
    ({ signal }) => new Promise((end) => signal.addEventListener('abort', end)),
  )
  const { term } = await untilReceived('election.elected')
  await campaign.close()
  expect(received['election.resigned']).toMatchObject([{ name: 'e', term }])
  const failing = one.elections.campaign('failing', () => Promise.reject(new Error('no lead')))
  expect(await untilReceived('election.failed')).toMatchObject({ name: 'failing', error: { message: 'no lead' } })
  await failing.close()
  const assignment = one.shares.assign('s', ['x'], () => Promise.reject(new Error('no share')))
  expect(await untilReceived('share.gained')).toMatchObject({ share: 's', resource: 'x' })
  expect(await untilReceived('share.failed')).toMatchObject({ share: 's', error: { message: 'no share' } })
  await assignment.close()
  expect(received['share.released']).toMatchObject([{ share: 's', resource: 'x' }])

  // Schedules and jobs.
  let runs = 0
  one.schedules.add('tick', { every: '1s' }, () => {
    if (runs++ === 0) throw new Error('no run')
  })
  expect(await untilReceived('schedule.started')).toMatchObject({ name: 'tick', extra: false, attempt: 1 })
  expect(await untilReceived('schedule.failed')).toMatchObject({ name: 'tick', error: { message: 'no run' } })
  expect(await untilReceived('schedule.ended')).toMatchObject({ name: 'tick', state: 'done' })
  const fails = defineJob('fails', {
    queue: 'q',
    retry: { attempts: 1 },
    run: () => Promise.reject(new Error('no job')),
  })
  const ends = defineJob('ends', {
    queue: 'q',
    run: (how: string, job) => (how === 'discard' ? JobOutcome.discard() : job.step('only', () => how)),
  })
  const [failed] = [await one.jobs.enqueue(fails, null)]
  const refs = await one.jobs.enqueueMany(ends, ['done', 'discard'])
  const ids = refs.map(({ id }) => id)
  expect(received['job.enqueued']).toEqual([
    { kind: 'fails', queue: 'q', ids: [failed.id], inTransaction: false },
    { kind: 'ends', queue: 'q', ids, inTransaction: false },
  ])
  work(one, [fails, ends])
  const properties = { kind: 'ends', queue: 'q', attempt: 1, durationMs: expect.any(Number) }
  expect(await untilReceived('job.done')).toEqual({ ...properties, id: ids[0] })
  expect(received['job.step-recorded']).toEqual([{ ...properties, id: ids[0], step: 'only' }])
  expect(await untilReceived('job.ended')).toEqual({ ...properties, id: ids[1], state: 'discarded' })
  expect(await untilReceived('job.failed')).toMatchObject({
    id: failed.id,
    state: 'buried',
    error: { message: 'no job' },
  })
  expect(received['job.started']!.map(({ id }) => id).sort()).toEqual([failed.id, ...ids].sort())
  // The database refuses to register another worker.
  await sql(
    url,
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not now'; end $$;
     create trigger refuse before insert on holdfast.worker for each row execute function refuse()`,
  )
  const refusing = await open({ url })
  await metricsText(refusing)
  const refused: unknown[] = []
  refusing.on('worker.failed', (event) => refused.push(event))
  work(refusing, [fails])
  await until('the worker fails', () => refused.length > 0)
  expect(refused[0]).toMatchObject({ queues: ['q'], error: { message: 'not now (SQLSTATE P0001)' } })
  await sql(url, 'drop trigger refuse on holdfast.worker')
  received['worker.failed'] = refused as NonNullable<ReceivedEvents['worker.failed']>
  // The database refuses the members of schedules, and then the presence of an instance without an anchor.
  await sql(
    url,
    'create trigger refuse before insert on holdfast.schedule_member for each row execute function refuse()',
  )
  one.schedules.add('refused', { every: '1h' }, () => {})
  expect(await untilReceived('scheduler.failed')).toMatchObject({ error: { message: 'not now (SQLSTATE P0001)' } })
  await sql(url, 'drop trigger refuse on holdfast.schedule_member')
  await sql(url, 'create trigger refuse before insert on holdfast.instance for each row execute function refuse()')
  const absent = await open({ url, anchor: 'none' })
  absent.on('instance.connect-failed', (event) => {
    received['instance.connect-failed'] = [event]
  })
  absent.schedules.add('absent', { every: '1h' }, () => {})
  expect(await untilReceived('instance.connect-failed')).toMatchObject({
    error: { message: 'not now (SQLSTATE P0001)' },
  })
  await sql(url, 'drop trigger refuse on holdfast.instance')
  const textOfRefusing = await metricsText(refusing)
  // Otherwise, one of these instances could take over the job and emit the event.
  await Promise.all([absent.close(), refusing.close()])
  // A worker dies while it runs a job that must not crash.
  const [dying, begun] = [gate(), gate()]
  const fragile = defineJob('fragile', {
    queue: 'q',
    maxCrashes: 1,
    run: () => {
      begun.open()
      return dying.opened
    },
  })
  const ofDead = await one.jobs.enqueue(fragile)
  work(one, [fragile])
  // A crash counts from the moment at which the handler runs.
  await begun.opened
  await sql(
    url,
    `insert into holdfast.worker (session, number, instance, queues, kinds) values (2147483647, 0, 'dead', '{}', '{}');
     update holdfast.claim set session = 2147483647 where ${ofDead.id} = any(ids)`,
  )
  expect(await untilReceived('job.crashed')).toEqual({ id: ofDead.id, kind: 'fragile', queue: 'q', crashes: 1 })
  dying.open()

  // No worker handles this kind.
  const late = await one.jobs.enqueue(defineJob('late', { queue: 'q' }), null, { startBy: 1 })
  expect(await untilReceived('job.expired')).toEqual({
    id: late.id,
    kind: 'late',
    queue: 'q',
    startBy: expect.any(Date),
  })

  // The session is lost, and everything that it held.
  const held = await one.locks.acquire('held')
  await one.limits.acquire('held', { max: 1 })
  const leads = one.elections.campaign('e', ({ signal }) => new Promise((end) => signal.addEventListener('abort', end)))
  await until('the campaign leads', () => leads.leads)
  const started = gate()
  const lost = caught(
    Error,
    one.once.run('lost', ({ signal }) => {
      started.open()
      return new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)))
    }),
  )
  await started.opened
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, one)])
  expect(await untilReceived('instance.lost')).toMatchObject({ reason: { code: 'DATABASE_UNREACHABLE' } })
  expect(await untilReceived('lock.lost')).toMatchObject({ reason: { code: 'LOCK_LOST' } })
  expect(received['lock.lost']!.map(({ fence }) => fence)).toContain(held.fence)
  expect(await untilReceived('limit.lost')).toMatchObject({ name: 'held', reason: { code: 'PERMIT_LOST' } })
  expect(await untilReceived('election.lost')).toMatchObject({ name: 'e', reason: { code: 'LOCK_LOST' } })
  await lost
  expect(await untilReceived('delivery.lost')).toMatchObject({ key: 'lost' })
  expect(await untilReceived('instance.reconnected')).toEqual({ lostForMs: expect.any(Number) })

  // Every metric was measured, with exactly the labels of its definition. The dashboards and alert rules in deploy/ use these names.
  const measured = new Map<string, Set<string>>()
  for (const text of [await metricsText(one), textOfRefusing]) {
    for (const [name, { type, samples }] of readExposition(text)) {
      if (type === 'gauge') continue
      const labels = measured.get(name) ?? new Set<string>()
      for (const sample of samples)
        for (const label of Object.keys(sample.labels)) if (label !== 'le') labels.add(label)
      measured.set(name, labels)
    }
  }
  const defined = Object.entries<Instrument>(instruments).map(
    ([name, { attributes }]) =>
      [prometheusName(name as InstrumentName), attributes.map(prometheusLabel).sort()] as const,
  )
  expect(Object.fromEntries([...measured].map(([name, labels]) => [name, [...labels].sort()]))).toEqual(
    Object.fromEntries(defined),
  )

  const original = await open({ url, name: 'taken' })
  const second = await open({ url, name: 'taken' })
  second.on('instance.name-taken', (event) => {
    received['instance.name-taken'] = [event]
  })
  expect(await untilReceived('instance.name-taken')).toEqual({ wanted: 'taken', name: 'taken#2' })
  await original.close()

  void one.drain({ within: '5s' })
  expect(received['instance.drain-started']).toEqual([{ withinMs: 5_000 }])
  await one.close()
  expect(received['instance.closed']).toEqual([{}])
  // test/jobs/unserved.test.ts tests `job.unserved`.
  expect([...Object.keys(received), 'job.unserved'].sort()).toEqual([...eventNames].sort())
})
