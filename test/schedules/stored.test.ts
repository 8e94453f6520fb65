import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { defineJob, type Holdfast, implement, UsageError } from '../../src/index.js'
import { caught, gate, sql, sqlSession, stays, until } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gapsOf, runsOf, setBack, unproven } from './fixture.js'

const report = defineJob<{ tenant: number }>('report')

/** Starts a worker in each instance. Returns the metas of the jobs that ran. */
function work(fleet: readonly Holdfast[], handle: () => unknown = () => {}): { schedule: string; tick: string }[] {
  const ran: { schedule: string; tick: string }[] = []
  for (const holdfast of fleet) {
    const worker = holdfast.jobs.work([
      implement(report, async (_, job) => {
        ran.push(job.meta as { schedule: string; tick: string })
        await handle()
      }),
    ])
    onTestFinished(() => worker.close({ within: 100 }))
  }
  return ran
}

async function nextAt(holdfast: Holdfast, name: string): Promise<Date> {
  return until(`${name} has a next tick`, async () => (await holdfast.schedules.find(name))?.nextAt)
}

test('each tick of a stored schedule enqueues one job in the same transaction, and every instance with a worker may settle it', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 3)
  const ran = work(fleet)
  const [holdfast] = fleet as [Holdfast]
  const names = Array.from({ length: 20 }, (_, at) => `tenant:${at}`)
  const outcomes = await Promise.all(
    names.map((name, at) => holdfast.schedules.upsert(name, { every: '1s', job: report, input: { tenant: at } })),
  )
  expect(new Set(outcomes)).toEqual(new Set(['created']))
  await until('each schedule has ticked three times', () =>
    names.every((name) => ran.filter(({ schedule }) => schedule === name).length >= 3),
  )
  const runs = (await runsOf(holdfast, 'tenant:7')).filter(({ state }) => state === 'done')
  const job = (await holdfast.jobs.find(runs[0]!.job!))!
  expect(job).toMatchObject({
    kind: 'report',
    input: { tenant: 7 },
    meta: { schedule: 'tenant:7', tick: runs[0]!.tick.toISOString() },
  })
  for (const name of names) expect(await unproven(url, name, 1_000)).toEqual([])
  const [row] = await sql(
    url,
    `
    select count(*)::int as ticks, count(distinct job)::int as jobs, count(distinct (meta ->> 'schedule', meta ->> 'tick'))::int as metas
    from holdfast.tick join holdfast.job on job.id = tick.job`,
  )
  expect(row!.ticks).toBeGreaterThanOrEqual(60)
  expect(row).toMatchObject({ jobs: row!.ticks, metas: row!.ticks })
  expect(new Set(ran.map((meta) => JSON.stringify(meta))).size).toBe(ran.length)
})

test('an upsert with an unchanged rule keeps the next tick, and a new rule settles the ticks of the old rule first', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  work([holdfast])
  const options = { every: '7d', job: report, input: { tenant: 1 } } as const
  expect(await holdfast.schedules.upsert('kept', options)).toBe('created')
  await nextAt(holdfast, 'kept')
  // A tick that is due soon would be lost if the upsert computed the next tick again.
  const soon = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 2_000)
  await setBack(url, 'kept', soon)
  expect(await holdfast.schedules.upsert('kept', options)).toBe('unchanged')
  expect(await holdfast.schedules.upsert('kept', { ...options, input: { tenant: 2 } })).toBe('changed')
  expect((await holdfast.schedules.find('kept'))!.job).toEqual({
    queue: 'default',
    kind: 'report',
    input: { tenant: 2 },
  })
  const [run] = await until('the tick has run', async () => {
    const runs = await runsOf(holdfast, 'kept')
    return runs.length > 0 && runs
  })
  expect(run!.tick).toEqual(soon)
  expect(await holdfast.schedules.upsert('kept', { ...options, every: '1s' })).toBe('changed')
  await until('the new rule ticks', async () => (await runsOf(holdfast, 'kept')).length >= 3)
  expect((await holdfast.schedules.find('kept'))!.rule).toEqual({ everyMs: 1_000 })
  const rules = await sql(url, 'select rule from holdfast.schedule_rule order by since')
  expect(rules.map(({ rule }) => rule)).toEqual(['{"every":604800000}', '{"every":1000}'])
})

test('a due tick of the old rule is settled once when an upsert changes the rule before an instance has settled it', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const options = { job: report, input: { tenant: 1 }, missed: 'latest' } as const
  await holdfast.schedules.upsert('late', { every: '7d', ...options })
  const worker = holdfast.jobs.work([implement(report, () => {})])
  await nextAt(holdfast, 'late')
  await worker.close()
  const [week] = await sql<{ at: Date }>(url, "select date_bin('7 days', now(), 'epoch') as at")
  await setBack(url, 'late', week!.at)
  expect(await holdfast.schedules.upsert('late', { every: '3d', ...options })).toBe('changed')
  work([holdfast])
  await until('the new rule is in force', async () => {
    const found = (await holdfast.schedules.find('late'))!
    return found.rule.everyMs === 3 * 86_400_000 && found.nextAt! > new Date()
  })
  expect((await runsOf(holdfast, 'late')).map(({ tick }) => tick)).toEqual([week!.at])
})

test('a removed stored schedule does not tick, also if its tick is already planned', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran = work([holdfast])
  await holdfast.schedules.upsert('gone', { every: '1s', job: report, input: { tenant: 1 } })
  await until('it has ticked', () => ran.length > 0)
  const [state] = await sql<{ key: string; rule: string; next_at: Date }>(
    url,
    'select key, rule, next_at from holdfast.schedule',
  )
  expect(await holdfast.schedules.remove('gone')).toBe(true)
  expect(await holdfast.schedules.remove('gone')).toBe(false)
  const before = ran.length
  const plan = {
    id: state!.key,
    rule: state!.rule,
    new_rule: state!.rule,
    next_at: state!.next_at,
    ticks: [state!.next_at],
    is_over: true,
  }
  await stays('it does not tick', () => ran.length <= before + 1, 1_300)
  const [count] = await sql<{ jobs: number }>(url, 'select count(*)::int as jobs from holdfast.job')
  await sql(url, 'select holdfast.schedule_settle_stored($1, $2)', [JSON.stringify([plan]), randomUUID()])
  expect(await sql(url, 'select count(*)::int as jobs from holdfast.job')).toEqual([count])
  expect(await sql(url, 'select * from holdfast.tick')).toEqual([])
})

test('two instances that settle the same planned tick enqueue one job', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  await holdfast.schedules.upsert('twice', { every: '1s', job: report, input: { tenant: 1 } })
  const at = new Date(Math.floor(Date.now() / 1_000) * 1_000)
  await sql(url, 'update holdfast.schedule set changed_at = null, next_at = $1', [at])
  const [state] = await sql<{ key: string; rule: string }>(url, 'select key, rule from holdfast.schedule')
  const following = new Date(at.getTime() + 60_000)
  const plan = {
    id: state!.key,
    rule: state!.rule,
    new_rule: state!.rule,
    next_at: at,
    ticks: [at, following],
    is_over: false,
  }
  const settle = () =>
    sql(url, 'select holdfast.schedule_settle_stored($1, $2)', [JSON.stringify([plan]), randomUUID()])
  await Promise.all([settle(), settle()])
  await settle()
  expect(await sql(url, 'select state, at from holdfast.tick')).toEqual([{ state: 'done', at }])
  expect(await sql(url, 'select count(*)::int as jobs from holdfast.job')).toEqual([{ jobs: 1 }])
})

test('with overlap: skip, a tick is a gap while the job of an earlier tick has not ended', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const end = gate()
  const ran = work([holdfast], () => end.opened)
  await holdfast.schedules.upsert('slow', { every: '1s', overlap: 'skip', job: report, input: { tenant: 1 } })
  await until('a tick is skipped', async () =>
    (await gapsOf(holdfast, 'slow')).some(({ reason }) => reason === 'overlap'),
  )
  expect(ran).toHaveLength(1)
  end.open()
  await until('the schedule ticks again', () => ran.length > 1)
  expect(await unproven(url, 'slow', 1_000)).toEqual([])
})

test('with overlap: skip, a tick enqueues no job next to the job of a run that is requested at the same time', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  await holdfast.schedules.upsert('skips', { every: '1h', overlap: 'skip', job: report, input: { tenant: 1 } })
  const at = new Date(Math.floor(Date.now() / 1_000) * 1_000)
  await sql(url, 'update holdfast.schedule set changed_at = null, next_at = $1', [at])
  const [{ key, rule }] = (await sql(url, 'select key, rule from holdfast.schedule')) as [{ key: string; rule: string }]
  const ticks = [at, new Date(at.getTime() + 3_600_000)]
  const plans = JSON.stringify([{ id: key, rule, new_rule: rule, next_at: at, ticks, is_over: false }])
  // The statement that settles the tick pauses between reading the last job and locking the schedule.
  await sql(
    url,
    `do $$ begin
       execute replace(pg_get_functiondef('holdfast.job_find(bigint[])'::regprocedure), 'job_find', 'job_find_now');
     end $$;
     drop function holdfast.job_find(bigint[]);
     create function holdfast.job_find(ids bigint[])
       returns table (id bigint, state text)
       language plpgsql
       as $$ begin
         if current_setting('test.pauses', true) = 'on' then
           perform pg_sleep(1);
         end if;
         return query select f.id, f.state from holdfast.job_find_now(ids) as f;
       end $$`,
  )
  const client = await sqlSession(url)
  await client.query("set test.pauses = 'on'")
  const settled = client.query("select holdfast.schedule_settle_stored($1, 'member')", [plans])
  await until(
    'the statement pauses',
    async () => (await sql(url, "select from pg_stat_activity where wait_event = 'PgSleep'")).length > 0,
  )
  await holdfast.schedules.run('skips')
  await settled
  expect(await sql(url, 'select count(*)::int as jobs from holdfast.job')).toEqual([{ jobs: 1 }])
  await client.query("select holdfast.schedule_settle_stored($1, 'member')", [plans])
  expect(await gapsOf(holdfast, 'skips')).toMatchObject([{ reason: 'overlap', ticks: 1 }])
})

test('a stored schedule can be paused, resumed, overridden and run', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran = work([holdfast])
  await holdfast.schedules.upsert('operated', { every: '7d', job: report, input: { tenant: 1 } })
  await nextAt(holdfast, 'operated')
  expect(await holdfast.schedules.run('operated')).toBeInstanceOf(Date)
  await until('the extra run has enqueued a job', () => ran.length === 1)
  await holdfast.schedules.override('operated', { every: '1s' })
  await until('the override ticks', () => ran.length >= 3)
  await holdfast.schedules.pause('operated')
  const before = (await runsOf(holdfast, 'operated')).length
  await stays('no tick is settled', async () => (await runsOf(holdfast, 'operated')).length === before, 1_300)
  await holdfast.schedules.resume('operated')
  await until('it ticks again', async () => (await runsOf(holdfast, 'operated')).length > before)
  expect((await gapsOf(holdfast, 'operated')).map(({ reason }) => reason)).toEqual(['paused'])
})

test('ticks that no instance settled are missed, and missed: { all } enqueues a job for the last of them', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const [week] = await sql<{ at: Date }>(url, "select date_bin('7 days', now(), 'epoch') as at")
  const options = { every: '7d', job: report, input: { tenant: 1 } } as const
  await holdfast.schedules.upsert('skips', options)
  await holdfast.schedules.upsert('catches', { ...options, missed: { all: 2 } })
  const first = new Date(week!.at.getTime() - 3 * 7 * 86_400_000)
  await sql(url, 'update holdfast.schedule set changed_at = null, next_at = $1', [first])
  work([holdfast])
  await until(
    'the ticks are settled',
    async () => (await nextAt(holdfast, 'catches')) > new Date() && (await nextAt(holdfast, 'skips')) > new Date(),
  )
  expect(await gapsOf(holdfast, 'skips')).toMatchObject([{ ticks: 4, reason: 'missed' }])
  expect(await gapsOf(holdfast, 'catches')).toMatchObject([{ ticks: 2, reason: 'limit' }])
  expect((await runsOf(holdfast, 'catches')).map(({ state, tick }) => [state, tick.getTime()])).toEqual([
    ['done', week!.at.getTime() - 7 * 86_400_000],
    ['done', week!.at.getTime()],
  ])
})

test('a backlog of many schedules is settled in one statement, and its gaps continue the earlier ones', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const options = { every: '1m', job: report, input: { tenant: 1 } } as const
  await holdfast.schedules.upsert('skips', { ...options, overlap: 'allow' })
  await holdfast.schedules.upsert('latest', { ...options, missed: 'latest', overlap: 'allow' })
  await holdfast.schedules.upsert('overlaps', { ...options, missed: 'latest', overlap: 'skip' })
  const minute = (n: number) => new Date((Math.floor(Date.now() / 60_000) - 100 + n) * 60_000)
  const [live] = await holdfast.jobs.enqueueMany(report, [{ tenant: 1 }])
  await sql(url, 'update holdfast.schedule set changed_at = null, next_at = $1, settled_at = null', [minute(0)])
  await sql(url, "update holdfast.schedule set last_job = $1 where name = 'overlaps'", [live!.id])
  const states = await sql<{ key: string; rule: string }>(url, 'select key, rule from holdfast.schedule')
  /** Settles ten ticks of each schedule, from the tick `from`. The next tick is far in the future. */
  const settle = async (from: number) => {
    const plans = states.map(({ key, rule }) => ({
      ...{ id: key, rule, new_rule: rule, next_at: minute(from), is_over: false },
      older: [{ first_at: minute(from), last_at: minute(from + 8), n: 9 }],
      ticks: [minute(from + 9), minute(1_000)],
    }))
    await sql(url, 'select holdfast.schedule_settle_stored($1, $2)', [JSON.stringify(plans), randomUUID()])
    await sql(url, 'update holdfast.schedule set next_at = $1', [minute(from + 10)])
  }
  await settle(0)
  await settle(10)
  const missed = (at: number, ticks: number, reason = 'missed') => ({ first: minute(at), ticks, reason })
  const gaps = async (name: string) =>
    (await gapsOf(holdfast, name)).map(({ first, ticks, reason }) => ({ first, ticks, reason }))
  const ran = async (name: string) => (await runsOf(holdfast, name)).map(({ tick }) => tick.getTime())
  expect(await gaps('skips')).toEqual([missed(0, 20)])
  expect(await ran('skips')).toEqual([])
  expect(await gaps('latest')).toEqual([missed(0, 9), missed(10, 9)])
  expect(await ran('latest')).toEqual([minute(9).getTime(), minute(19).getTime()])
  expect(await gaps('overlaps')).toEqual([
    missed(0, 9),
    missed(9, 1, 'overlap'),
    missed(10, 9),
    missed(19, 1, 'overlap'),
  ])
  expect(await ran('overlaps')).toEqual([])
})

test('schedules.list returns pages of schedules whose names contain a text', async () => {
  const url = await databaseUrl()
  const { schedules } = await open({ url })
  const upsert = (name: string) =>
    schedules.upsert(name, { cron: '0 8 * * *', timezone: 'Europe/London', job: report, input: { tenant: 1 } })
  await Promise.all(['tenant:1', 'tenant:2', 'other', 'tenant:3'].map(upsert))
  const names = async (options: Parameters<typeof schedules.list>[0]) =>
    (await schedules.list(options)).map(({ name }) => name)
  expect(await names({ search: 'TENANT', limit: 2 })).toEqual(['tenant:1', 'tenant:2'])
  expect(await names({ search: 'tenant', limit: 2, after: 'tenant:2' })).toEqual(['tenant:3'])
  expect(await names(undefined)).toEqual(['other', 'tenant:1', 'tenant:2', 'tenant:3'])
})

test('a stored schedule can be created and removed from SQL, and a rule that no instance can read does not stop the others', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran = work([holdfast])
  const upsert = (name: string, rule: string) =>
    sql(url, `select holdfast.schedule_upsert($1, 'default', 'report', '{"tenant": 1}', ${rule}) as outcome`, [name])
  expect(await upsert('unreadable', "cron => '99 99 * * *'")).toEqual([{ outcome: 'created' }])
  expect(await upsert('from sql', "every => '1 second'")).toEqual([{ outcome: 'created' }])
  expect(await upsert('from sql', "every => '1 second'")).toEqual([{ outcome: 'unchanged' }])
  await until('it ticks', () => ran.some(({ schedule }) => schedule === 'from sql'))
  expect(await holdfast.schedules.upsert('from sql', { every: '1s', job: report, input: { tenant: 1 } })).toBe(
    'changed',
  )
  expect(await sql(url, "select holdfast.schedule_remove('from sql') as is_removed")).toEqual([{ is_removed: true }])
  await expect(upsert('neither', 'every => null')).rejects.toThrow('Expected either cron or every, got neither')
  await expect(upsert('zone', "cron => '@daily', timezone => 'Europe/Londn'")).rejects.toThrow('Europe/Londn')
})

test('a stored schedule ticks while a transaction has locked a full batch of due schedules', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const ran = work([holdfast])
  const upsertAll = `
    select count(holdfast.schedule_upsert('locked:' || i, 'idle', 'idle', 'null', every => interval '1 second'))
    from generate_series(1, 1000) as i`
  await sql(url, upsertAll)
  await holdfast.schedules.upsert('free', { every: '1s', job: report, input: { tenant: 1 } })
  const ticks = () => ran.filter(({ schedule }) => schedule === 'free').length
  await until('the schedule ticks', () => ticks() > 0)
  const client = await sqlSession(url)
  await client.query('begin')
  await client.query(upsertAll)
  // By now, the locked schedules are due before each tick of the other schedule.
  await until('the locked schedules are overdue', async () => {
    const overdue = "name like 'locked:%' and next_at < clock_timestamp() - interval '1 second'"
    return (await sql(url, `select from holdfast.schedule where ${overdue}`)).length === 1_000
  })
  const before = ticks()
  await until('the schedule ticks three more times', () => ticks() >= before + 3)
  await client.query('rollback')
})

test('an instance that cannot read a due rule leaves the stored schedules to other instances', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 2)
  work(fleet)
  const upsert = "select holdfast.schedule_upsert('newer', 'q', 'k', 'null', cron => '0 99 * * *', namespace => $1)"
  await sql(url, upsert, [fleet[0]!.namespace])
  const holders = new Set<unknown>()
  await until('both instances have tried to read the rule', async () => {
    for (const { instance } of await sql(url, 'select instance from holdfast.schedule_ticker')) holders.add(instance)
    return holders.size === 2
  })
})

test('a schedule in code and a stored schedule do not share a name', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const options = { every: '1h', job: report, input: { tenant: 1 } } as const
  add(holdfast, 'in code', { every: '1h' })
  await holdfast.schedules.find('in code')
  const error = await caught(UsageError, holdfast.schedules.upsert('in code', options))
  expect(error.message).toContain('"in code" is defined in code')
  expect(await holdfast.schedules.remove('in code')).toBe(false)
  await holdfast.schedules.upsert('later in code', options)
  add(holdfast, 'later in code', { every: '1h' })
  const status = (await holdfast.schedules.find('later in code'))!
  expect(status).toMatchObject({ job: undefined, members: [{ instance: holdfast.id }] })
})

test('a new rule of a stored schedule does not repeat settled ticks after the database clock was set back', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  work([holdfast])
  const options = { job: report, input: { tenant: 1 } }
  await holdfast.schedules.upsert('set back', { ...options, every: '1h' })
  await nextAt(holdfast, 'set back')
  const settled = new Date(Date.now() + 86_400_000)
  const later =
    "update holdfast.schedule set settled_at = $1::timestamptz, next_at = $1::timestamptz + interval '1 hour'"
  await sql(url, later, [settled])
  await holdfast.schedules.upsert('set back', { ...options, every: '1s' })
  await until('the new rule applies', async () => {
    const [row] = await sql(url, 'select changed_at from holdfast.schedule')
    return row!.changed_at === null
  })
  expect((await nextAt(holdfast, 'set back')).getTime()).toBeGreaterThan(settled.getTime())
})

test('schedules.upsert accepts the same inputs as jobs.enqueue, also in concurrent calls', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const inputs = [{ tenant: 1 }, { zero: 'x\0' }, { half: '\ud800' }, 'text', null]
  const any = defineJob<unknown>('any')
  const upsertAll = () =>
    Promise.all(inputs.map((input, at) => holdfast.schedules.upsert(`input:${at}`, { every: '1h', job: any, input })))
  expect(new Set(await upsertAll())).toEqual(new Set(['created']))
  expect(new Set(await upsertAll())).toEqual(new Set(['unchanged']))
  const stored = await holdfast.schedules.list()
  expect(stored.map(({ job }) => job!.input)).toEqual(inputs)
  for (const [at, input] of inputs.entries()) {
    await holdfast.schedules.run(`input:${at}`)
    const [run] = await runsOf(holdfast, `input:${at}`)
    expect((await holdfast.jobs.find(run!.job!))!.input).toEqual(input)
  }
})

test('schedules.upsert rejects wrong options', async () => {
  const url = await databaseUrl()
  const { schedules } = await open({ url })
  const options = { job: report, input: { tenant: 1 } }
  await caught(UsageError, schedules.upsert('none', options))
  await caught(UsageError, schedules.upsert('', { every: '1h', ...options }))
  await caught(UsageError, schedules.upsert('no job', { every: '1h', input: 1 } as never))
  await caught(UsageError, schedules.upsert('overlap', { every: '1h', overlap: 'queue', ...options } as never))
})
