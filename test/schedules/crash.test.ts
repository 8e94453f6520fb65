import { expect, test } from 'vitest'
import { RunLostError } from '../../src/index.js'
import { sql, stays, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gate, runsOf, stopped, untilMember, untilRuns } from './fixture.js'

test('the life of the runner ends: its signal aborts, another runs the tick, and its late end is refused', async () => {
  const url = await databaseUrl()
  const [a, b] = await openFleet(url, 2)
  const begun = gate()
  const goOn = gate()
  const told: unknown[] = []
  add(a!, 'taken over', { every: '1h' }, async ({ signal }) => {
    begun.open()
    await stopped(signal).catch((reason) => told.push(reason))
    await goOn.opened
  })
  await untilMember(a!, 'taken over')
  const tick = await a!.schedules.run('taken over')
  await begun.opened
  const [before] = await sql<{ fence: string }>(url, 'select fence from holdfast.tick')
  const attempts: number[][] = []
  add(b!, 'taken over', { every: '1h' }, ({ attempt, fence }) => attempts.push([attempt, fence]))
  await untilMember(b!, 'taken over')
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, a!)])
  const [run] = await untilRuns(b!, 'taken over', ['done'])
  expect(run).toMatchObject({ tick, attempt: 2, instance: b!.id, error: undefined })
  expect(attempts[0]![0]).toBe(2)
  expect(attempts[0]![1]).toBeGreaterThan(Number(before!.fence))
  expect(told[0]).toBeInstanceOf(RunLostError)
  expect((told[0] as Error).message).toMatch(
    new RegExp(`^The run of schedule "taken over" for ${tick!.toISOString()} was lost: `),
  )
  goOn.open()
  await stays(
    'the end of the second run stands',
    async () => (await runsOf(b!, 'taken over'))[0]!.instance === b!.id,
    300,
  )
})

test('a tick that ends every life that runs it is broken after the third', async () => {
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

test('crashed: record', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  add(holdfast, 'recorded', { every: '1h', crashed: 'record' }, async ({ tick, signal }) => {
    ran.push(tick)
    await stopped(signal)
  })
  await untilMember(holdfast, 'recorded')
  await holdfast.schedules.run('recorded')
  await until('it runs', () => ran.length === 1)
  await sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, holdfast)])
  const [run] = await untilRuns(holdfast, 'recorded', ['broken'])
  expect(run!.attempt).toBe(1)
  await untilMember(holdfast, 'recorded')
  expect(ran.length).toBe(1)
})

test('no member is left: the run is lost, and whoever asks for another, or comes back, lets it run again', async () => {
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
  // What is there waits for a member, so that there can be no other beside it.
  expect(await schedules.run('again')).toBe(null)
  expect(await schedules.runs('again')).toMatchObject([{ state: 'waiting', attempt: 1 }])
  expect(await schedules.run('broken')).toBeInstanceOf(Date)
  expect(await schedules.runs('broken')).toMatchObject([{ state: 'waiting', attempt: 0 }, { state: 'broken' }])
  // Who has any schedule looks after all.
  add(operator, 'again', { every: '1h' })
  await untilRuns(operator, 'again', ['done'])
  await untilRuns(operator, 'found', ['broken'])
})

test('what was begun without its instance hearing of it is begun again', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const attempts: number[] = []
  add(holdfast, 'unheard', { every: '1h' }, ({ attempt }) => attempts.push(attempt))
  await untilMember(holdfast, 'unheard')
  // As a take whose answer was lost.
  await sql(
    url,
    `insert into holdfast.tick (schedule, at, state, session, instance, fence, attempt, started_at)
     select schedule, date_trunc('milliseconds', now()), 'running', session, instance, nextval('holdfast.fence'), 1, now()
     from holdfast.schedule_member`,
  )
  await untilRuns(holdfast, 'unheard', ['done'])
  expect(attempts).toEqual([1])
})

test('nothing begins before the server is settled', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran: Date[] = []
  add(holdfast, 'unsettled', { every: '1h' }, ({ tick }) => ran.push(tick))
  await untilMember(holdfast, 'unsettled')
  // Somebody who may still believe: an instance of a generation before that has not come back.
  await sql(
    url,
    `insert into holdfast.instance (id, namespace, session, host, os_pid, version, expiry_ms, pooler, generation)
     select 'cut off', 'default', 0, '', 0, '', 3600000, 'none', generation - 1 from holdfast.server_generation`,
  )
  await sql(url, 'update holdfast.server_generation set began_at = clock_timestamp()')
  await holdfast.schedules.run('unsettled')
  await stays('nothing runs', () => ran.length === 0, 1_000)
  await sql(url, "delete from holdfast.instance where id = 'cut off'")
  await untilRuns(holdfast, 'unsettled', ['done'])
})
