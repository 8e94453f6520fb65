import { expect, test } from 'vitest'
import { RunLostError } from '../../src/index.js'
import { sql, stays, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gapsOf, gate, runsOf, stopped, untilMember, untilRuns } from './fixture.js'

test('a tick whose instance loses its session runs on another instance, and the late end of the first run is refused', async () => {
  const url = await databaseUrl()
  const [a, b] = await openFleet(url, 2)
  const started = gate()
  const finish = gate()
  const reasons: unknown[] = []
  add(a!, 'taken over', { every: '1h' }, async ({ signal }) => {
    started.open()
    await stopped(signal).catch((reason) => reasons.push(reason))
    await finish.opened
  })
  await untilMember(a!, 'taken over')
  const tick = await a!.schedules.run('taken over')
  await started.opened
  const [before] = await sql<{ fence: string }>(url, 'select fence from holdfast.tick')
  const attempts: number[][] = []
  add(b!, 'taken over', { every: '1h' }, ({ attempt, fence }) => attempts.push([attempt, fence]))
  await untilMember(b!, 'taken over')
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, a!)])
  const [run] = await untilRuns(b!, 'taken over', ['done'])
  expect(run).toMatchObject({ tick, attempt: 2, instance: b!.id, error: undefined })
  expect(attempts[0]![0]).toBe(2)
  expect(attempts[0]![1]).toBeGreaterThan(Number(before!.fence))
  expect(reasons[0]).toBeInstanceOf(RunLostError)
  expect((reasons[0] as Error).message).toMatch(
    new RegExp(`^The run of schedule "taken over" for ${tick!.toISOString()} was lost: `),
  )
  finish.open()
  await stays(
    'the second run is recorded as the end of the tick',
    async () => (await runsOf(b!, 'taken over'))[0]!.instance === b!.id,
    300,
  )
})

test('a tick whose instance loses its session three times is broken', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const attempts: number[] = []
  add(holdfast, 'poison', { every: '1h' }, async ({ attempt, signal }) => {
    attempts.push(attempt)
    await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, holdfast)])
    await stopped(signal)
  })
  await untilMember(holdfast, 'poison')
  await holdfast.schedules.run('poison')
  const [run] = await untilRuns(holdfast, 'poison', ['broken'])
  expect(run).toMatchObject({
    attempt: 3,
    error: { code: 'INSTANCE_CRASHED', message: `Its instance ${holdfast.id} died while it ran` },
  })
  expect(attempts).toEqual([1, 2, 3])
})

test('crashed: record breaks a tick whose instance loses its session, without another attempt', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  add(holdfast, 'recorded', { every: '1h', crashed: 'record' }, async ({ tick, signal }) => {
    ran.push(tick)
    await stopped(signal)
  })
  await untilMember(holdfast, 'recorded')
  await holdfast.schedules.run('recorded')
  await until('the tick runs', () => ran.length === 1)
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, holdfast)])
  const [run] = await untilRuns(holdfast, 'recorded', ['broken'])
  expect(run!.attempt).toBe(1)
  await untilMember(holdfast, 'recorded')
  expect(ran.length).toBe(1)
})

test('a run without any member left is lost, and runs again after a call of run or the return of a member', async () => {
  const url = await databaseUrl()
  const first = await open({ url })
  for (const [name, crashed] of Object.entries({ again: 'rerun', broken: 'record', found: 'record' } as const)) {
    first.schedules.add(name, { every: '1h', crashed }, () => {})
    await untilMember(first, name)
  }
  await first.close()
  await sql(
    url,
    `insert into holdfast.tick (schedule, at, state, session, instance, fence, attempt, started_at)
     select key, date_trunc('milliseconds', now()), 'running', 0, 'gone', nextval('holdfast.fence'), 1, now()
     from holdfast.schedule`,
  )
  const operator = await open({ url })
  const { schedules } = operator
  expect(await schedules.runs('again')).toMatchObject([{ state: 'lost', instance: 'gone', attempt: 1 }])
  // The first run waits for a member again, so `run` starts no second one.
  expect(await schedules.run('again')).toBe(null)
  expect(await schedules.runs('again')).toMatchObject([{ state: 'waiting', attempt: 1 }])
  expect(await schedules.run('broken')).toBeInstanceOf(Date)
  expect(await schedules.runs('broken')).toMatchObject([{ state: 'waiting', attempt: 0 }, { state: 'broken' }])
  // An instance with any schedule handles the lost runs of all schedules.
  add(operator, 'again', { every: '1h' })
  await untilRuns(operator, 'again', ['done'])
  await untilRuns(operator, 'found', ['broken'])
})

test('a run whose start did not reach its instance is started again', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const attempts: number[] = []
  add(holdfast, 'lost start', { every: '1h' }, ({ attempt }) => attempts.push(attempt))
  await untilMember(holdfast, 'lost start')
  // The state after a claim whose result did not reach the instance.
  await sql(
    url,
    `insert into holdfast.tick (schedule, at, state, session, instance, fence, attempt, started_at)
     select schedule, date_trunc('milliseconds', now()), 'running', session, instance, nextval('holdfast.fence'), 1, now()
     from holdfast.schedule_member`,
  )
  await untilRuns(holdfast, 'lost start', ['done'])
  expect(attempts).toEqual([1])
})

test('no run starts before the grace period of a new server generation ends', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  add(holdfast, 'grace period', { every: '1h' }, ({ tick }) => ran.push(tick))
  await untilMember(holdfast, 'grace period')
  // An instance of the previous generation may still run a tick. It has not reconnected.
  await sql(
    url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation)
     select 'cut off', 'cut off', 'default', 0, '', 0, '', 3600000, 'none', generation - 1 from holdfast.server_generation`,
  )
  await sql(url, 'update holdfast.server_generation set began_at = clock_timestamp()')
  await holdfast.schedules.run('grace period')
  await stays('no tick runs', () => ran.length === 0, 1_000)
  await sql(url, "delete from holdfast.instance where id = 'cut off'")
  await untilRuns(holdfast, 'grace period', ['done'])
})

test('ticks run although the members that should claim them do nothing', { timeout: 40_000 }, async () => {
  const url = await databaseUrl()
  const [holdfast, frozen] = await openFleet(url, 2)
  const ran: Date[] = []
  add(holdfast!, 'left alone', { every: '5s' }, ({ tick }) => ran.push(tick))
  await untilMember(holdfast!, 'left alone')
  // Live members that never claim. With 50 of them, this instance is rarely among the first members of a tick.
  await sql(
    url,
    `insert into holdfast.schedule_member (schedule, instance, session, rule)
     select m.schedule, 'frozen ' || n, (select session from holdfast.instance where id = $1), m.rule
     from holdfast.schedule_member m
     cross join generate_series(1, 50) as n`,
    [frozen!.id],
  )
  const from = ran.length
  await until('three more ticks have run', () => ran.length >= from + 3, 30_000)
  expect(await gapsOf(holdfast!, 'left alone')).toEqual([])
})
