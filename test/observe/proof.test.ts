import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { defineJob } from '../../src/jobs/index.js'
import { Observer } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

async function createFixture() {
  const url = await databaseUrl()
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  const observer = new Observer(database)
  /** Returns the facts that contradict the invariants at this check. */
  const facts = async () => {
    const { invariants } = await observer.proof({ repairWithinMs: 0 })
    return invariants.flatMap(({ number, facts }) => facts.map((fact) => `${number} ${fact}`))
  }
  return { url, observer, facts, run: (text: string, values?: unknown[]) => sql(url, text, values) }
}

test('a busy fleet keeps every invariant, and every invariant has checked something', async () => {
  const { url, observer } = await createFixture()
  const fleet = await Promise.all([0, 1, 2].map(() => open({ url, namespace: 'shop' })))
  const [one, two] = fleet
  const ship = defineJob<unknown>('ship', { run: () => sleep(50) })
  await one!.jobs.enqueueMany(
    ship,
    Array.from({ length: 300 }, (_, at) => ({ at })),
  )
  const pack = defineJob('pack', { run: (_: null, job) => job.step('pack', () => 1) })
  await one!.jobs.enqueue(pack, null)
  for (const member of fleet) {
    member.jobs.work([ship, pack], { concurrency: 5 })
    member.schedules.add('tick', { every: '1s' }, async () => {})
  }
  await one!.locks.acquire('nightly')
  await one!.locks.acquire('read', { mode: 'shared' })
  await two!.locks.acquire('read', { mode: 'shared' })
  await two!.leases.acquire('etl')
  await one!.limits.acquire('gpu', { max: 3 })
  await two!.once.run('event:1', async () => 'answer')
  let isOver = false
  const churning = fleet.map(async (member) => {
    while (!isOver) {
      await member.locks.with('hot', { wait: '10s' }, async () => {})
      await member.leases.with('warm', { wait: '10s' }, async () => {})
      await member.limits.with('few', { max: 2, wait: '10s' }, async () => {})
    }
  })
  const facts: string[] = []
  const checked = new Set<number>()
  await until('every invariant has checked something', async () => {
    const { invariants } = await observer.proof({ repairWithinMs: 0 })
    for (const invariant of invariants) {
      facts.push(...invariant.facts)
      if (invariant.checked > 0) checked.add(invariant.number)
    }
    return facts.length > 0 || checked.size === invariants.length
  }).finally(async () => {
    isOver = true
    await Promise.all(churning)
  })
  expect(facts).toEqual([])
})

test('each invariant that is broken by hand in the tables is reported as broken', async () => {
  const { url, facts, run, observer } = await createFixture()
  const holdfast = await open({ url, namespace: 'shop', expiry: '2s' })
  const session = (await run('select session from holdfast.instance where id = $1', [holdfast.id]))[0]!.session
  const gone = 2_000_000_000
  const lock = await holdfast.locks.acquire('etl')
  await holdfast.limits.acquire('gpu', { max: 1 })
  await holdfast.once.run('event:1', async () => 'answer')
  const schedule = holdfast.schedules.add('report', { cron: '0 0 1 1 *' }, async () => {})
  onTestFinished(() => schedule.close())
  const { id: ended } = await holdfast.jobs.enqueue(defineJob<unknown>('ship', { run: async () => {} }), {})
  await until('the member of the schedule and the hold of the lock are recorded', async () => {
    const [row] = await run(
      'select (select count(*) from holdfast.hold) * (select count(*) from holdfast.schedule_member) as both',
    )
    return Number(row!.both) > 0
  })
  const found = new Set<string>()
  /** Breaks something, expects that it is reported, and undoes the change. */
  const expectBroken = async (fact: RegExp, doIt: string, undoIt: string, values: unknown[] = []) => {
    expect(await facts(), `before ${doIt}`).toEqual([])
    await run(doIt, values)
    expect(await facts(), doIt).toEqual([expect.stringMatching(fact)])
    found.add(fact.source[1]!)
    await run(undoIt)
  }

  await expectBroken(
    /^1 etl: session \d+ holds the lock, and instance other holds the lease$/,
    `insert into holdfast.lease (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at)
     select key, 'x', 'other', 1, 60000, 0, now(), now() + interval '1 minute' from holdfast.hold`,
    'delete from holdfast.lease',
  )
  await expectBroken(
    new RegExp(`^2 etl: the holder has fence ${lock.fence}, but a write used a larger fence$`),
    'insert into holdfast.fence_guard select key, fence + 1 from holdfast.hold',
    'delete from holdfast.fence_guard',
  )
  await expectBroken(
    /^2 etl: held with fence \d+, which is larger than any assigned fence$/,
    'update holdfast.hold set fence = fence + 1000000',
    'update holdfast.hold set fence = fence - 1000000',
  )
  const term = `insert into holdfast.term (key, fence, kind, mode, instance, began_at, ended_at, why)`
  await expectBroken(
    /^1 key 8: fence 12 was granted while fence 11 held the name$/,
    `${term} values
       (8, 11, 'lock', 'exclusive', 'a', now() - interval '9 s', now() - interval '4 s', 'released'),
       (8, 12, 'lease', 'exclusive', 'b', now() - interval '6 s', now() - interval '2 s', 'released')`,
    'delete from holdfast.term where key = 8',
  )
  await expectBroken(
    /^2 key 8: fence 12 was granted before fence 11$/,
    `${term} values
       (8, 11, 'lock', 'exclusive', 'a', now() - interval '6 s', now() - interval '4 s', 'lost'),
       (8, 12, 'lock', 'exclusive', 'b', now() - interval '9 s', now() - interval '8 s', 'lost')`,
    'delete from holdfast.term where key = 8',
  )
  await expectBroken(
    /^3 key 7: leased by instance other for longer than the ttl of 1000 ms$/,
    `insert into holdfast.lease (key, token, instance, fence, ttl_ms, min_hold_ms, granted_at, expires_at)
     values (7, 'x', 'other', 1, 1000, 0, now(), now() + interval '1 minute')`,
    'delete from holdfast.lease',
  )
  await expectBroken(
    /^3 gpu: instance other is dead and still has a permit that calls wait for$/,
    `with waits as (
       insert into holdfast.permit (key, token, session, instance, weight, max, wait_order, since)
       select key, 1, session, instance, 1, 1, 1, now() from holdfast.permit
     )
     insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
     select key, 2, ${gone}, 'other', 1, 1, 1, now() from holdfast.permit`,
    'delete from holdfast.permit where token in (1, 2)',
  )
  const silent = await sqlSession(url, { application_name: `holdfast ${holdfast.id}` })
  await silent.query('select pg_advisory_lock(9)')
  await until('the session has been silent for too long', async () =>
    (await facts()).some((fact) => /^3 key 9: held by session \d+ of instance .*silent for too long$/.test(fact)),
  )
  await silent.end()

  await expectBroken(
    /^4 job 900 belongs to session 2000000000, which has ended$/,
    `with claim as (insert into holdfast.claim (fence, session, token, ids) values (1, ${gone}, 1, '{900}'))
     insert into holdfast.job (id, entry, era, queue, priority, kind, payload) values (900, 900, -1, 1, 0, 'ship', '{}')`,
    'with job as (delete from holdfast.job where id = 900) delete from holdfast.claim',
  )
  await expectBroken(
    /^4 job 900 was due at .*, but is not ready yet$/,
    `with worker as (
       insert into holdfast.worker (session, number, instance, queues, since)
       values (${session}, 90, 'other', '{}', now() - interval '1 hour')
     )
     insert into holdfast.waiting (id, queue, priority, kind, payload, run_at)
     values (900, 1, 0, 'ship', '{}', now() - interval '2 minutes')`,
    'with worker as (delete from holdfast.worker) delete from holdfast.waiting',
  )
  await expectBroken(
    /^4 job 901 waits for job 900, which does not exist$/,
    'insert into holdfast.dependency values (900, 901)',
    'delete from holdfast.dependency',
  )
  const done = (id: unknown) =>
    `insert into holdfast.job_end (bucket, fence, session, claimed_at, is_done, ids) values (holdfast.job_bucket(${id}), 1, 1, now(), true, '{${id}}')`
  const stopped = (id: unknown) =>
    `insert into holdfast.job_stopped (id, queue, priority, kind, payload, state, enqueued_at, failed, crashes, max_crashes)
     values (${id}, 1, 0, 'ship', '{}', 'buried', now(), 0, 0, 3)`
  for (const end of [done, stopped]) {
    await expectBroken(
      new RegExp(`^5 job ${ended} has ended, but is still in its queue$`),
      end(ended),
      'with stopped as (delete from holdfast.job_stopped) delete from holdfast.job_end',
    )
  }
  await expectBroken(
    /^5 job 900 has ended, but is still in its queue$/,
    `with done as (${done(900)}), entry as (
       insert into holdfast.job (id, entry, era, queue, priority, kind, payload) values (900, 900, -1, 1, 0, 'ship', '{}')
     )
     insert into holdfast.claim (fence, session, token, ids) values (2, ${session}, 1, '{900}')`,
    `with claim as (delete from holdfast.claim), entry as (delete from holdfast.job where id = 900) delete from holdfast.job_end`,
  )
  for (const both of [
    `with first as (${done(900)}) ${done(900)}`,
    `with first as (${stopped(900)}) ${stopped(900)}`,
    `with first as (${done(900)}) ${stopped(900)}`,
  ]) {
    await expectBroken(
      /^5 job 900 has ended 2 times$/,
      both,
      'with stopped as (delete from holdfast.job_stopped) delete from holdfast.job_end',
    )
  }
  const tick = `insert into holdfast.tick (schedule, at, state, session) select key, '2020-01-01'`
  const gap = `insert into holdfast.gap (schedule, first_at, last_at, ticks, reason) select key`
  await expectBroken(
    /^6 report: its tick of 2020-01-01.* has both a run and a reason for having none$/,
    `with tick as (${tick}, 'done', 1 from holdfast.schedule)
     ${gap}, '2019-12-01', '2020-02-01', 3, 'missed' from holdfast.schedule`,
    'with tick as (delete from holdfast.tick) delete from holdfast.gap',
  )
  await expectBroken(
    /^6 report: its ticks from 2020-01-01.* on have two reasons for having no run$/,
    `with before as (${gap}, '2019-12-01', '2020-02-01', 3, 'missed' from holdfast.schedule)
     ${gap}, '2020-01-01', '2020-01-01', 1, 'overlap' from holdfast.schedule`,
    'delete from holdfast.gap',
  )
  await expectBroken(
    /^6 unserved: its run of 2020-01-01.* belongs to session 2000000000, which has ended$/,
    // The schedule has no members: a member would take the run over.
    `with unserved as (
       insert into holdfast.schedule (key, namespace, name, rule, next_at, overlap, missed, catch_up, reruns)
       values (6, 'shop', 'unserved', '{}', '2100-01-01', 'skip', 'skip', 0, false)
       returning key
     )
     ${tick}, 'running', ${gone} from unserved`,
    'with tick as (delete from holdfast.tick) delete from holdfast.schedule where key = 6',
  )
  await expectBroken(
    /^6 stuck: its tick of 2020-01-01.* has neither a run nor a reason for having none$/,
    `with member as (
       insert into holdfast.schedule_member (schedule, instance, session, rule, since)
       values (5, 'other', ${session}, '{}', now() - interval '1 hour')
     )
     insert into holdfast.schedule (key, namespace, name, rule, next_at, overlap, missed, catch_up, reruns)
     values (5, 'shop', 'stuck', '{}', '2020-01-01', 'skip', 'skip', 0, false)`,
    'with member as (delete from holdfast.schedule_member where schedule = 5) delete from holdfast.schedule where key = 5',
  )
  await expectBroken(
    /^7 event:1: it has a result without a time$/,
    'update holdfast.delivery set finished_at = null',
    'update holdfast.delivery set finished_at = started_at',
  )
  await expectBroken(
    /^7 event:1: its result is older than its run$/,
    `update holdfast.delivery set finished_at = started_at - interval '1 hour'`,
    'update holdfast.delivery set finished_at = started_at',
  )
  await expectBroken(
    /^7 event:1: it is in flight, but has a result$/,
    `update holdfast.delivery set state = 'in-flight'`,
    `update holdfast.delivery set state = 'done'`,
  )
  await expectBroken(
    /^8 gpu: more than 1 permits are in use$/,
    `insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
     select key, 2, session, instance, 1, 1, 1, now() from holdfast.permit`,
    'delete from holdfast.permit where token = 2',
  )
  const step = 'insert into holdfast.job_step (job, name, kind, fence, attempt, started_at, ended_at) values'
  const event = 'insert into holdfast.job_event (job, number, event, data, step) values'
  await expectBroken(
    /^9 step pay of job 7 was recorded with fence 11, after fence 12 had recorded a step$/,
    `${step} (7, 'book', 'step', 12, 2, now(), now() - interval '3 s'), (7, 'pay', 'step', 11, 1, now(), now())`,
    'delete from holdfast.job_step where job = 7',
  )
  await expectBroken(
    /^9 step go of job 7 has received 2 events$/,
    `with event as (${event} (7, 1, 'go', '1', 'go'), (7, 2, 'go', '2', 'go')) ${step} (7, 'go', 'event', 11, 1, now(), now())`,
    'with event as (delete from holdfast.job_event where job = 7) delete from holdfast.job_step where job = 7',
  )
  await expectBroken(
    /^9 event 1 of job 7 was received by step go, which is not recorded$/,
    `${event} (7, 1, 'go', '1', 'go')`,
    'delete from holdfast.job_event where job = 7',
  )
  await expectBroken(
    /^9 step pay of job 7 is recorded 2 times$/,
    `alter table holdfast.job_step drop constraint job_step_pkey;
     ${step} (7, 'pay', 'step', 11, 1, now(), now()), (7, 'pay', 'step', 11, 1, now(), now())`,
    `delete from holdfast.job_step;
     alter table holdfast.job_step add constraint job_step_pkey primary key (job, name)`,
  )
  expect([...found].sort()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9'])

  // A fact that is found for the first time may be repaired soon. A fact that is found again is a violation.
  await run('insert into holdfast.dependency values (900, 901)')
  const look = async () => (await observer.proof({ repairWithinMs: 1 })).invariants[3]!
  expect(await look()).toMatchObject({ violations: 0, suspects: 1, facts: [] })
  expect(await look()).toMatchObject({ violations: 1, suspects: 0, facts: [/nowhere/] })
})
