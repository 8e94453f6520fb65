// Tests moving jobs to Holdfast that pg-boss and graphile-worker themselves have enqueued and run.
import { fork } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { defineJob, type Holdfast, UnknownSourceError, UsageError } from '../../src/index.js'
import { importSources } from '../../src/jobs/index.js'
import { drain } from '../../src/testing/index.js'
import { bin } from '../cli/program.js'
import { caught, sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open, roleUrl } from '../setup/instances.js'
import { gate, work } from './fixture.js'
import { bossOf, graphileOf, graphileWorker, importedJobs } from './import-fixture.js'

async function openFresh(): Promise<{ url: string; holdfast: Holdfast }> {
  const url = await databaseUrl()
  return { url, holdfast: await open({ url }) }
}

function counts(list: readonly { reason?: string; kind?: string; jobs: number }[]): Record<string, number> {
  return Object.fromEntries(list.map(({ reason, kind, jobs }) => [reason ?? kind, jobs]))
}

async function leftIn(url: string, table: string): Promise<number> {
  return (await sql<{ count: number }>(url, `select count(*)::integer as count from ${table}`))[0]!.count
}

describe('pg-boss', () => {
  test('a job imported from pg-boss keeps its kind, input, priority, time, failures, keys and lane', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    await boss.createQueue('mail')
    await boss.createQueue('short', { policy: 'short' })
    await boss.createQueue('exclusive', { policy: 'exclusive' })
    await boss.createQueue('singleton', { policy: 'singleton' })
    const plain = await boss.send('mail', { to: 'ada' })
    await boss.send('mail', { to: 'urgent' }, { priority: 9 })
    await boss.send('mail', null, { startAfter: 3_600 })
    await boss.send('mail', { to: 'shop' }, { group: { id: 'shop:7' } })
    await boss.send('short', { n: 1 }, { singletonKey: 'one' })
    await boss.send('exclusive', { n: 2 }, { singletonKey: 'two' })
    await boss.send('singleton', { n: 3 }, { singletonKey: 'three' })
    await boss.send('singleton', { n: 4 })
    expect(await holdfast.jobs.importFrom('pg-boss')).toEqual({
      imported: [
        { kind: 'mail', jobs: 4 },
        { kind: 'short', jobs: 1 },
        { kind: 'exclusive', jobs: 1 },
        { kind: 'singleton', jobs: 2 },
      ],
      skipped: [],
    })
    expect(await leftIn(url, 'pgboss.job')).toBe(0)
    const jobs = await importedJobs(url)
    const by = (input: unknown) => jobs.find((job) => JSON.stringify(job.input) === JSON.stringify(input))
    const usual = { kind: 'mail', priority: 0, failed: 0, delayed: null, lane: null, unique: null }
    expect(by({ to: 'ada' })).toMatchObject({
      ...usual,
      log: [{ attempt: 0, text: `Imported from pg-boss: ${plain}` }],
    })
    expect(by({ to: 'urgent' })).toMatchObject({ ...usual, priority: 5 })
    expect(by(null)).toMatchObject({ ...usual, delayed: true })
    expect(by({ to: 'shop' })).toMatchObject({ lane: 'shop:7' })
    expect(by({ n: 1 })).toMatchObject({ kind: 'short', unique: { key: 'one', until: 'started' } })
    expect(by({ n: 2 })).toMatchObject({ kind: 'exclusive', unique: { key: 'two', until: 'ended' } })
    expect(by({ n: 3 })).toMatchObject({ kind: 'singleton', lane: 'three' })
    expect(by({ n: 4 })).toMatchObject({ kind: 'singleton', lane: 'singleton' })
  })

  test('attempts that have failed in pg-boss count in Holdfast, and the last attempt buries the job', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    await boss.createQueue('fail')
    const id = await boss.send('fail', {}, { retryLimit: 5 })
    for (let attempt = 1; attempt <= 2; attempt++) {
      expect(await boss.fetch('fail')).toHaveLength(1)
      await boss.fail('fail', id!)
    }
    await holdfast.jobs.importFrom('pg-boss')
    const [job] = await importedJobs(url)
    expect(job).toMatchObject({ failed: 2 })
    const attempts: number[] = []
    const fail = defineJob('fail', {
      retry: { attempts: 3 },
      run: (_: unknown, { attempt }) => {
        attempts.push(attempt)
        throw new Error('again')
      },
    })
    await drain(holdfast, [fail])
    expect(attempts).toEqual([3])
    expect(await holdfast.jobs.find(Number(job!.id))).toMatchObject({ state: 'buried' })
  })

  test('jobs that are not imported are reported with a reason, and a second import moves no job twice', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    await boss.createQueue('mail')
    await boss.createQueue('short', { policy: 'short' })
    await boss.createQueue('line', { policy: 'singleton' })
    await boss.send('mail', {})
    const [ended] = await boss.fetch('mail')
    await boss.complete('mail', ended!.id)
    await boss.send('mail', {})
    const [held] = await boss.fetch('mail')
    await boss.flow([
      { ref: 'parent', name: 'mail' },
      { ref: 'child', name: 'mail', dependsOn: ['parent'] },
    ])
    await boss.send('mail', { text: 'x'.repeat(1_000_000) })
    await boss.send('short', {}, { singletonKey: 'taken' })
    await boss.send('line', {}, { singletonKey: 'one' })
    expect(await boss.fetch('line')).toHaveLength(1)
    await boss.send('line', {}, { singletonKey: 'one' })
    await holdfast.jobs.enqueue(defineJob<unknown>('short', { run: () => {} }), {}, { unique: 'taken' })
    await boss.send('mail', { locked: true })
    const rival = await sqlSession(url)
    await rival.query(`begin; select from pgboss.job where data->>'locked' = 'true' for update`)
    await boss.send('mail', { free: true })
    const left = { linked: 2, large: 1, key: 1, busy: 1, locked: 1, running: 2, ended: 1 }

    const before = await leftIn(url, 'pgboss.job')
    const dry = await holdfast.jobs.importFrom('pg-boss', { dryRun: true })
    expect([counts(dry.imported), counts(dry.skipped)]).toEqual([{ mail: 1 }, left])
    expect([await leftIn(url, 'pgboss.job'), await leftIn(url, 'holdfast.job_live')]).toEqual([before, 1])

    const one = await holdfast.jobs.importFrom('pg-boss')
    expect([counts(one.imported), counts(one.skipped)]).toEqual([{ mail: 1 }, left])
    const two = await holdfast.jobs.importFrom('pg-boss')
    expect([counts(two.imported), counts(two.skipped)]).toEqual([{}, left])
    expect(await leftIn(url, 'pgboss.job')).toBe(before - 1)
    await rival.query('rollback')
    // A job that a pg-boss worker has is ended in pg-boss.
    await boss.complete('mail', held!.id)
    const three = await holdfast.jobs.importFrom('pg-boss', { kind: 'mail' })
    expect([counts(three.imported), counts(three.skipped)]).toEqual([{ mail: 1 }, { linked: 2, large: 1, ended: 2 }])
  })

  test('each job runs once if workers of pg-boss and of Holdfast run during the import', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    await boss.createQueue('count')
    const all = Array.from({ length: 2_000 }, (_, n) => n)
    await boss.insert(
      'count',
      all.map((n) => ({ data: { n } })),
    )
    const ran = { there: [] as number[], here: [] as number[] }
    const count = defineJob('count', { run: ({ n }: { n: number }) => void ran.here.push(n) })
    work(holdfast, [count], { concurrency: 50 })
    const { opened: begun, open: begin } = gate()
    const eager = { batchSize: 5, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
    await boss.work<{ n: number }>('count', eager, async (jobs) => {
      begin()
      ran.there.push(...jobs.map(({ data }) => data.n))
    })
    await begun
    await holdfast.jobs.importFrom('pg-boss')
    await until('all jobs have run', () => ran.there.length + ran.here.length >= all.length)
    expect(ran.there.length).toBeGreaterThan(0)
    expect(ran.here.length).toBeGreaterThan(0)
    expect([...ran.there, ...ran.here].sort((a, b) => a - b)).toEqual(all)
  })

  test('jobs with large inputs are all imported', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    const graphile = await graphileOf(url)
    await boss.createQueue('large')
    const inputs = Array.from({ length: 6 }, (_, n) => ({ n, text: 'x'.repeat(900_000) }))
    await boss.insert(
      'large',
      inputs.map((data) => ({ data })),
    )
    await graphile.addJobs(inputs.map((payload) => ({ identifier: 'large', payload })))
    for (const from of importSources) {
      const { imported, skipped } = await holdfast.jobs.importFrom(from)
      expect([counts(imported), skipped]).toEqual([{ large: 6 }, []])
    }
    const ids = await sql<{ n: number }>(url, `select (payload->>'n')::integer as n from holdfast.job_live order by 1`)
    expect(ids.map(({ n }) => n)).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
  })

  test('a batch that cannot be removed from pg-boss is not enqueued in Holdfast', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    await boss.createQueue('mail')
    await boss.insert('mail', [{ data: { n: 1 } }, { data: { n: 2 } }])
    await sql(
      url,
      `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$;
       create trigger refuse before delete on pgboss.job for each row execute function refuse()`,
    )
    await expect(holdfast.jobs.importFrom('pg-boss')).rejects.toThrow('no')
    expect([await leftIn(url, 'pgboss.job'), await leftIn(url, 'holdfast.job_live')]).toEqual([2, 0])
  })

  test('an import that is killed in the middle of a batch leaves each job in exactly one system', async () => {
    const { url, holdfast } = await openFresh()
    const boss = await bossOf(url)
    await boss.createQueue('mail')
    await boss.insert(
      'mail',
      Array.from({ length: 1_010 }, (_, n) => ({ data: { n } })),
    )
    // The second batch enqueues its jobs, and then waits before it removes them from pg-boss.
    await sql(
      url,
      `create function wait() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared(4711); return old; end $$;
       create trigger wait before delete on pgboss.job for each row when ((old.data->>'n')::integer >= 1000) execute function wait()`,
    )
    const gatekeeper = await sqlSession(url)
    await gatekeeper.query('select pg_advisory_lock(4711)')
    const command = fork(bin, ['job', 'import', 'pg-boss', '--yes'], {
      env: { ...process.env, DATABASE_URL: url },
      silent: true,
    })
    const ended = new Promise((resolve) => command.once('exit', resolve))
    await until('the second batch waits for the lock', async () => {
      const found = await sql(url, `select from pg_locks where locktype = 'advisory' and not granted and objid = 4711`)
      return found.length > 0
    })
    command.kill('SIGKILL')
    await ended
    await gatekeeper.query('select pg_advisory_unlock(4711)')
    await until('the transaction of the command has ended', async () => {
      return (
        (
          await sql(
            url,
            `select from pg_stat_activity where application_name = 'holdfast command line' and datname = current_database()`,
          )
        ).length === 0
      )
    })
    const here = await leftIn(url, 'holdfast.job_live')
    expect(here + (await leftIn(url, 'pgboss.job'))).toBe(1_010)
    await holdfast.jobs.importFrom('pg-boss')
    const ids = await sql<{ n: number }>(url, `select (payload->>'n')::integer as n from holdfast.job_live order by 1`)
    expect(ids.map(({ n }) => n)).toEqual(Array.from({ length: 1_010 }, (_, n) => n))
  })
})

describe('graphile-worker', () => {
  test('a job imported from graphile-worker keeps its kind, input, priority, time, key and lane', async () => {
    const { url, holdfast } = await openFresh()
    const graphile = await graphileOf(url)
    const plain = await graphile.addJob('mail', { to: 'ada' })
    await graphile.addJob('mail', { to: 'urgent' }, { priority: -3 })
    await graphile.addJob('mail', { to: 'idle' }, { priority: 50 })
    await graphile.addJob('mail', { to: 'later' }, { runAt: new Date(Date.now() + 3_600_000) })
    await graphile.addJob('mail', { to: 'key' }, { jobKey: 'one' })
    // Jobs of one queue name, with and without keys. The order of the jobs is not the order of the keys.
    await graphile.addJob('create', { n: 1 }, { queueName: 'shop:7', jobKey: 'z' })
    await graphile.addJob('update', { n: 2 }, { queueName: 'shop:7' })
    await graphile.addJob('create', { n: 3 }, { queueName: 'shop:7', jobKey: 'a' })
    const { imported, skipped } = await holdfast.jobs.importFrom('graphile-worker', { into: 'post' })
    expect([counts(imported), skipped]).toEqual([{ mail: 5, create: 2, update: 1 }, []])
    expect(await leftIn(url, 'graphile_worker._private_jobs')).toBe(0)
    const jobs = await importedJobs(url)
    const by = (to: string) => jobs.find(({ input }) => (input as { to?: string }).to === to)
    expect(by('ada')).toMatchObject({
      kind: 'mail',
      priority: 0,
      failed: 0,
      lane: null,
      log: [{ attempt: 0, text: `Imported from graphile-worker: ${plain.id}` }],
    })
    expect(by('urgent')).toMatchObject({ priority: 3 })
    expect(by('idle')).toMatchObject({ priority: -5 })
    expect(by('later')).toMatchObject({ delayed: true })
    expect(by('key')).toMatchObject({ unique: { key: 'one', until: 'started' } })
    const ran: number[] = []
    const run = ({ n }: { n: number }) => void ran.push(n)
    const definitions = ['create', 'update'].map((kind) => defineJob(kind, { queue: 'post', run }))
    work(holdfast, definitions)
    await until('all jobs of the lane have run', () => ran.length === 3)
    expect(ran).toEqual([1, 2, 3])
  })

  test('a job that a graphile worker runs stays there, and so does a job behind it in the same queue', async () => {
    const { url, holdfast } = await openFresh()
    const graphile = await graphileOf(url)
    const [here, there] = [[] as number[], [] as number[]]
    const { opened: mayEnd, open: letEnd } = gate()
    await graphile.addJob('slow', { n: 1 }, { queueName: 'line' })
    await graphileWorker(url, {
      slow: async (payload) => {
        await mayEnd
        there.push((payload as { n: number }).n)
      },
    })
    await until('the graphile worker has locked the first job', async () => {
      return (await sql(url, 'select from graphile_worker._private_jobs where locked_at is not null')).length === 1
    })
    await graphile.addJob('slow', { n: 2 }, { queueName: 'line' })
    await graphile.addJob('slow', { n: 3 })
    await graphile.addJob('slow', { n: 4 }, { flags: ['heavy'] })
    await graphile.addJob('dead', {}, { maxAttempts: 1 })
    await sql(url, `update graphile_worker._private_jobs set attempts = 1 where max_attempts = 1`)
    const slow = defineJob('slow', { run: ({ n }: { n: number }) => void here.push(n) })
    work(holdfast, [slow])
    const { imported, skipped } = await holdfast.jobs.importFrom('graphile-worker')
    expect([counts(imported), counts(skipped)]).toEqual([{ slow: 1 }, { busy: 1, flags: 1, running: 1, ended: 1 }])
    letEnd()
    await until('all jobs have run', () => here.length + there.length === 4)
    expect([here, there.sort()]).toEqual([[3], [1, 2, 4]])
  })
})

describe('sources that are refused', () => {
  test('importFrom refuses a library that is missing, unknown or of an unsupported version', async () => {
    const { url, holdfast } = await openFresh()
    const absent = await caught(UnknownSourceError, holdfast.jobs.importFrom('pg-boss'))
    expect(absent).toMatchObject({
      code: 'UNKNOWN_SOURCE',
      message: expect.stringContaining('tables of pg-boss in the schema "pgboss"'),
    })
    await sql(
      url,
      'create schema old; create table old.version (version integer); insert into old.version values (24); create table old.job ()',
    )
    const old = await caught(UnknownSourceError, holdfast.jobs.importFrom('pg-boss', { schema: 'old' }))
    expect(old.message).toContain('in the schema "old" to have a version from 31 to 43, got 24')
    await graphileOf(url)
    await sql(url, 'insert into graphile_worker.migrations (id) values (21)')
    const young = await caught(UnknownSourceError, holdfast.jobs.importFrom('graphile-worker'))
    expect(young.message).toContain('got 21')
    await expect(holdfast.jobs.importFrom('bull' as never)).rejects.toThrow(UsageError)
  })

  test('importFrom fails if row-level security hides the jobs from its role', async () => {
    const { url } = await openFresh()
    const graphile = await graphileOf(url)
    await graphile.addJob('mail', {})
    const { url: theirs, role } = await roleUrl(url)
    for (const schema of ['holdfast', 'graphile_worker']) {
      await sql(
        url,
        `grant usage on schema ${schema} to ${role};
         grant all on all tables in schema ${schema} to ${role};
         grant all on all sequences in schema ${schema} to ${role}`,
      )
    }
    const other = await open({ url: theirs, migrate: false, anchor: 'none' })
    const hidden = await caught(UnknownSourceError, other.jobs.importFrom('graphile-worker'))
    expect(hidden.message).toBe('Row-level security hides the jobs of graphile-worker from this database role')
  })
})
