import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import {
  DrainingError,
  defineJob,
  defineSchedule,
  RunTimeoutError,
  type ScheduleRun,
  UsageError,
} from '../../src/index.js'
import { caught, sql, stays, until } from '../setup/facts.js'
import { databaseUrl, open, openFleet } from '../setup/instances.js'
import { add, gate, runsOf, stopped, unproven, untilMember, untilRuns } from './fixture.js'

test('each tick runs once and in time on one of three instances', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 3)
  const ran: ScheduleRun[] = []
  for (const holdfast of fleet) add(holdfast, 'every second', { every: '1s' }, (run) => ran.push(run))
  await until('four ticks have run', () => ran.length >= 4)
  const ticks = ran.map(({ tick }) => tick.getTime())
  expect(new Set(ticks).size).toBe(ticks.length)
  expect(ticks.every((tick, at) => at === 0 || tick === ticks[at - 1]! + 1_000)).toBe(true)
  expect(Math.min(...ran.map(({ lateMs }) => lateMs))).toBeLessThan(1_000)
  const fences = ran.map(({ fence }) => fence)
  expect(fences).toEqual([...fences].sort((a, b) => a - b))
  // The end of one run is recorded before the next tick.
  expect(ran[3]!.lastSuccess).toEqual(ran[2]!.tick)
  expect(ran[0]).toMatchObject({ name: 'every second', attempt: 1, extra: false, lastSuccess: undefined })
  expect(await unproven(url, 'every second', 1_000)).toEqual([])
})

test.each(['repeatable read', 'serializable'])(
  'each tick runs once if transactions are %s by default',
  async (level) => {
    const url = await databaseUrl()
    await sql(url, `alter database "${new URL(url).pathname.slice(1)}" set default_transaction_isolation = '${level}'`)
    await sql(url, 'create table effect (tick timestamptz not null)')
    const fleet = await openFleet(url, 3)
    for (const holdfast of fleet) {
      add(holdfast, 'strict', { every: '1s', overlap: 'queue' }, async ({ tx, tick, log }) => {
        await tx.query('insert into effect values ($1)', [tick])
        log('written')
      })
    }
    const done = await untilRuns(fleet[0]!, 'strict', ['done'], 3)
    const effects = await sql<{ tick: Date }>(url, 'select tick from effect order by 1')
    expect(effects.slice(0, 3).map(({ tick }) => tick)).toEqual(done.slice(0, 3).map(({ tick }) => tick))
    expect(await unproven(url, 'strict', 1_000)).toEqual([])
  },
)

test('a schedule runs, pauses and is overridden with postgres.js', async () => {
  const url = await databaseUrl()
  await sql(url, 'create table effect (tick timestamptz not null)')
  const client = postgres(url)
  onTestFinished(() => client.end())
  const holdfast = await open({ sql: client })
  add(holdfast, 'other driver', { every: '1s' }, async ({ tx, tick, log }) => {
    await tx.query('insert into effect values ($1)', [tick])
    log('written')
  })
  const [first] = await untilRuns(holdfast, 'other driver', ['done'])
  expect(first!.log).toMatchObject([{ text: 'written' }])
  expect((await sql<{ tick: Date }>(url, 'select tick from effect order by 1'))[0]!.tick).toEqual(first!.tick)
  await holdfast.schedules.pause('other driver')
  await holdfast.schedules.override('other driver', { every: '1h' })
  await holdfast.schedules.resume('other driver')
  expect(await holdfast.schedules.find('other driver')).toMatchObject({ override: { everyMs: 3_600_000 } })
})

test('the log and the error of a handler are recorded, and the next tick runs', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const failures: unknown[] = []
  holdfast.on('schedule.failed', ({ error, attempt }) => failures.push([(error as Error).message, attempt]))
  add(holdfast, 'fails', { every: '1s' }, ({ log }) => {
    log('so far')
    log('so good')
    throw new TypeError('and no further')
  })
  const [first] = await untilRuns(holdfast, 'fails', ['failed'], 2)
  expect(first).toMatchObject({
    kind: 'run',
    instance: holdfast.id,
    attempt: 1,
    extra: false,
    error: { name: 'TypeError', message: 'and no further' },
    log: [{ text: 'so far' }, { text: 'so good' }],
  })
  expect(first!.endedAt!.getTime()).toBeGreaterThanOrEqual(first!.startedAt!.getTime())
  expect(failures[0]).toEqual(['and no further', 1])
})

test('text that PostgreSQL rejects does not prevent the other lines of a log from being recorded', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  add(holdfast, 'hostile', { every: '7d' }, ({ log }) => {
    log('first', { 'a\0b': 1 })
    log(`${'x'.repeat(1_999)}😀`)
  })
  await untilMember(holdfast, 'hostile')
  await holdfast.schedules.run('hostile')
  const [run] = await untilRuns(holdfast, 'hostile', ['done'])
  expect(run!.log).toMatchObject([{ text: 'first', data: { 'a\uFFFDb': 1 } }, { text: `${'x'.repeat(1_999)}\uFFFD` }])
})

test('a run that exceeds its timeout is aborted and fails', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const reasons: unknown[] = []
  add(holdfast, 'slow', { every: '1h', timeout: 50 }, async ({ signal }) => {
    await stopped(signal).catch((reason) => reasons.push(reason))
    return 'as if nothing had happened'
  })
  await untilMember(holdfast, 'slow')
  await holdfast.schedules.run('slow')
  const [run] = await untilRuns(holdfast, 'slow', ['failed'])
  expect(reasons[0]).toBeInstanceOf(RunTimeoutError)
  expect(run!.error).toMatchObject({
    code: 'RUN_TIMEOUT',
    message: 'The run of schedule "slow" exceeded its timeout of 50ms',
  })
})

test('the writes of a run with tx commit with its end, or not at all', async () => {
  const url = await databaseUrl()
  await sql(url, 'create table effect (tick timestamptz not null, what text not null)')
  const holdfast = await open({ url })
  let fails = true
  add(holdfast, 'writes', { every: '1h' }, async ({ tx, tick }) => {
    await tx.query('insert into effect values ($1, $2)', [tick, fails ? 'failed' : 'done'])
    if (fails) throw new Error('no')
  })
  await untilMember(holdfast, 'writes')
  await holdfast.schedules.run('writes')
  await untilRuns(holdfast, 'writes', ['failed'])
  fails = false
  const tick = await holdfast.schedules.run('writes')
  await untilRuns(holdfast, 'writes', ['done'])
  expect(await sql(url, 'select * from effect')).toEqual([{ tick, what: 'done' }])
})

test('a run whose tick was taken over cannot commit its writes', async () => {
  const url = await databaseUrl()
  await sql(url, 'create table effect (attempt integer not null)')
  const holdfast = await open({ url })
  const written = gate()
  const finish = gate()
  const ended = gate()
  add(holdfast, 'late', { every: '1h' }, async ({ tx, attempt }) => {
    await tx.query('insert into effect values ($1)', [attempt])
    if (attempt === 1) {
      written.open()
      await finish.opened
    } else ended.open()
  })
  await untilMember(holdfast, 'late')
  await holdfast.schedules.run('late')
  await written.opened
  // An instance that finds the runner dead makes this update.
  await sql(url, "update holdfast.tick set state = 'waiting'")
  await ended.opened
  finish.open()
  await untilRuns(holdfast, 'late', ['done'])
  await stays(
    'only the second attempt has an effect',
    async () => JSON.stringify(await sql(url, 'select attempt from effect')) === '[{"attempt":2}]',
    300,
  )
})

test('a run that was taken over is not ended by its earlier attempt', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const gates = [gate(), gate()]
  const started: number[] = []
  add(holdfast, 'late', { every: '1h' }, async ({ attempt }) => {
    started.push(attempt)
    await gates[attempt - 1]!.opened
  })
  await untilMember(holdfast, 'late')
  await holdfast.schedules.run('late')
  await until('the tick runs', () => started.length === 1)
  await sql(url, "update holdfast.tick set state = 'waiting'")
  await until('the tick runs again', () => started.length === 2)
  gates[0]!.open()
  await stays(
    'the second attempt is running',
    async () => (await runsOf(holdfast, 'late'))[0]!.state === 'running',
    500,
  )
  gates[1]!.open()
  await untilRuns(holdfast, 'late', ['done'])
})

test('a schedule that enqueues a job enqueues one for each tick, and the history of the schedule contains the jobs', async () => {
  const url = await databaseUrl()
  const fleet = await openFleet(url, 3)
  const report = defineJob('report', { run: (_: { day: string }) => {} })
  for (const { schedules } of fleet) {
    schedules.add('nightly', { every: '1s', job: report, input: (tick) => ({ day: tick.toISOString() }) })
  }
  await untilRuns(fleet[0]!, 'nightly', ['done'], 3)
  await Promise.all(fleet.map(({ schedules }) => schedules.pause('nightly')))
  await until('all runs have ended', async () =>
    (await runsOf(fleet[0]!, 'nightly')).every(({ state }) => state === 'done'),
  )
  const jobs = await sql<{ day: string; id: string }>(
    url,
    "select payload ->> 'day' as day, id from holdfast.job order by 1",
  )
  const runs = await runsOf(fleet[0]!, 'nightly')
  expect(jobs.map(({ day, id }) => [day, Number(id)])).toEqual(runs.map(({ tick, job }) => [tick.toISOString(), job]))
})

test('close of a schedule waits for its run, and no further tick runs', async () => {
  const holdfast = await open({ url: await databaseUrl() })
  const started = gate()
  const end = gate()
  const schedule = add(holdfast, 'closing', { every: '1s' }, async () => {
    started.open()
    await end.opened
  })
  await started.opened
  let isClosed = false
  const closing = schedule.close().then(() => {
    isClosed = true
  })
  await stays('close waits for the run', () => !isClosed, 200)
  end.open()
  await closing
  const runs = await runsOf(holdfast, 'closing')
  expect(runs.map(({ state }) => state)).toEqual(['done'])
  await stays('no further tick runs', async () => (await runsOf(holdfast, 'closing')).length === 1, 1_500)
  expect((await holdfast.schedules.find('closing'))!.members).toEqual([])
  // The schedule can be added again.
  add(holdfast, 'closing', { every: '1s' })
  await untilRuns(holdfast, 'closing', ['done'], 2)
})

test('a run that does not end before the deadline of close runs again on another instance', async () => {
  const url = await databaseUrl()
  const [a, b] = (await openFleet(url, 2)) as [Awaited<ReturnType<typeof open>>, Awaited<ReturnType<typeof open>>]
  const reasons: unknown[] = []
  const started = gate()
  const schedule = add(a, 'handed over', { every: '1h' }, async ({ signal }) => {
    started.open()
    await stopped(signal).catch((reason) => {
      reasons.push(reason)
      throw reason
    })
  })
  await untilMember(a, 'handed over')
  const tick = await a.schedules.run('handed over')
  await started.opened
  const attempts: number[] = []
  add(b, 'handed over', { every: '1h' }, ({ attempt }) => attempts.push(attempt))
  await untilMember(b, 'handed over')
  await schedule.close({ within: 50 })
  expect(reasons[0]).toBeInstanceOf(DrainingError)
  expect(reasons[0]).toMatchObject({ part: 'schedule', message: 'This schedule is draining: "handed over"' })
  const [run] = await untilRuns(b, 'handed over', ['done'])
  expect(run).toMatchObject({ tick, attempt: 2, instance: b.id, error: undefined })
  expect(attempts).toEqual([2])
})

test('close of an instance closes its schedules', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const other = await open({ url })
  add(holdfast, 'closed', { every: '1h' })
  await untilMember(holdfast, 'closed')
  await holdfast.close()
  expect((await other.schedules.find('closed'))!.members).toEqual([])
  expect((await caught(Error, () => add(holdfast, 'closed', { every: '1h' }))).message).toBe('This instance is closed')
})

test('schedules.add throws a UsageError immediately for invalid arguments', async () => {
  const { schedules } = await open({ url: await databaseUrl() })
  const work = () => {}
  const report = defineJob('report', { run: (_: number) => {} })
  const complaint = async (wrong: () => unknown) => (await caught(UsageError, wrong)).message
  expect(await complaint(() => schedules.add('', { every: '1s' }, work))).toMatch(
    /^Expected the name of the schedule to be a string of 1 to 500 characters/,
  )
  expect(await complaint(() => schedules.add('a', {}, work))).toBe(
    'Expected exactly one of `cron`, `every` and `at` for schedules.add, got none',
  )
  expect(await complaint(() => schedules.add('a', { every: '1s', overlaps: 'skip' } as object, work))).toBe(
    'schedules.add has no option "overlaps": did you mean "overlap"?',
  )
  expect(await complaint(() => schedules.add('a', { every: '1s', missed: { all: 0 } }, work))).toBe(
    'Expected missed to be "skip", "latest", or { all: N } where N is a whole number between 1 and 1000, got an object (Object)',
  )
  expect(await complaint(() => schedules.add('a', { every: '1s', overlap: 'replace', missed: { all: 3 } }, work))).toBe(
    "Expected an overlap other than 'replace' in combination with missed: { all: N }",
  )
  expect(await complaint(() => schedules.add('a', { every: '1s' }, undefined as never))).toBe(
    'Expected the last argument of schedules.add to be a function, got undefined',
  )
  expect(await complaint(() => schedules.add('a', { every: '1s', job: report } as never))).toBe(
    'Expected both options, job and input, but got only one',
  )
  expect(await complaint(() => schedules.add('a', { every: '1s', job: report, input: () => 1 } as object, work))).toBe(
    'Expected either the option job or a function, got both',
  )
  expect(await complaint(() => schedules.add('a', { every: '1s', was: 'a' }, work))).toBe(
    'Expected the `was` option to be different from the schedule\'s own name "a"',
  )
  // @ts-expect-error: text is not an input of this job
  await schedules.add('typed', { every: '1h', job: report, input: () => 'text' }).close()
  const schedule = schedules.add('a', { every: '1h' }, work)
  expect(await complaint(() => schedules.add('a', { every: '1h' }, work))).toBe(
    'This instance already has a schedule named "a"',
  )
  expect(await complaint(() => schedules.add('b', { every: '1h', was: 'a' }, work))).toBe(
    'This instance already has a schedule named "a"',
  )
  await schedule.close()
})

test('an instance without schedules is not registered in the database', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, anchor: 'none' })
  expect(await holdfast.schedules.list()).toEqual([])
  expect(await sql(url, 'select from holdfast.instance')).toEqual([])
})

test('a result of defineSchedule can be added to several instances, and defineSchedule refuses invalid arguments', async () => {
  const fleet = await openFleet(await databaseUrl(), 2)
  const ran: string[] = []
  const definition = defineSchedule('defined', { every: '365d', missed: 'latest' }, ({ name }) => ran.push(name))
  for (const holdfast of fleet) {
    const schedule = holdfast.schedules.add(definition)
    onTestFinished(() => schedule.close())
    expect(schedule).toMatchObject({ name: 'defined', running: 0 })
    await untilMember(holdfast, 'defined')
  }
  await fleet[1]!.schedules.run('defined')
  await untilRuns(fleet[0]!, 'defined', ['done'])
  expect(ran).toEqual(['defined'])
  const wrong: [() => unknown, RegExp][] = [
    [
      () => defineSchedule('', { every: '1s' }, () => {}),
      /^Expected the name of the schedule to be a string of 1 to 500/,
    ],
    [() => defineSchedule('x', { every: '1' as never }, () => {}), /^Expected every to be a duration of at least 1s/],
    [
      () => defineSchedule('x', {}, () => {}),
      /^Expected exactly one of `cron`, `every` and `at` for defineSchedule, got none/,
    ],
    [
      () => defineSchedule('x', { every: '1s' }, null as never),
      /^Expected the last argument of defineSchedule to be a fun/,
    ],
    [
      () => fleet[0]!.schedules.add({ name: 'x' } as never),
      /^Expected the first argument of schedules.add to be a name or a definition ma/,
    ],
    [
      () => fleet[0]!.schedules.add(definition as never, {}, () => {}),
      /^Expected no further arguments after the schedule definition/,
    ],
    [() => fleet[0]!.schedules.add(definition), /^This instance already has a schedule named "defined"/],
  ]
  for (const [work, message] of wrong) expect((await caught(UsageError, work)).message).toMatch(message)
})
