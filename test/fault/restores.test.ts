// Backups, restores, copies and upgrades of the database on real clusters. Systems outside the database check that fences and job ids never repeat
// and never decrease.
import { execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readRunbook, runCommands } from '../../faults/runbook.ts'
import { defineJob, Holdfast } from '../../src/index.js'
import { migrate, openPgPool } from '../../src/postgres/index.js'
import { examineDatabase } from '../doctor/fixture.js'
import { programsDirectory, runProgram, startCluster, temporaryDirectory, withoutPrograms } from '../setup/clusters.js'
import { sql, until, within } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { runsAll, waysOf } from '../setup/variants.js'
import { Outside } from './outside.js'

const dump = (url: string, file: string, ...args: string[]) =>
  runProgram('pg_dump', ['--dbname', url, '--schema', 'holdfast', '--format', 'custom', '--file', file, ...args])
const restore = (url: string, file: string, ...args: string[]) =>
  runProgram('pg_restore', ['--dbname', url, '--exit-on-error', ...args, file])

/** Runs the commands of a runbook, and does the rest of each step that `between` names. */
async function runSteps(
  section: string,
  env: Record<string, string>,
  {
    between = {},
    user,
  }: { between?: Record<string, () => Promise<unknown>>; user?: { uid: number; gid: number } } = {},
): Promise<void> {
  const done: string[] = []
  for (const { text, commands } of readRunbook('operating/backups.md', section)) {
    const manual = Object.keys(between).find((start) => text.startsWith(start))
    if (manual && text.startsWith('**Start')) await between[manual]!()
    for (const lines of commands) await runCommands(lines, { programs: programsDirectory, env, ...(user && { user }) })
    if (manual && !text.startsWith('**Start')) await between[manual]!()
    if (manual) done.push(manual)
  }
  expect(done).toEqual(Object.keys(between))
}

async function install(url: string): Promise<void> {
  const database = openPgPool({ connectionString: url })
  await migrate(database, 'holdfast')
  await database.close()
}

const generationOf = async (url: string) =>
  (await sql<{ generation: number }>(url, 'select generation from holdfast.server_generation'))[0]!.generation

const audit =
  "insert into holdfast.audit (visitor, act, subject, params, consequence) values ('me', 'look', 'it', '{}', 'none')"

/** Uses up transaction ids, as on a server that has worked for a long time. */
const useUpTransactionIds = (url: string) =>
  sql(url, 'do $$ begin for i in 1 .. 5000 loop perform pg_current_xact_id(); commit; end loop; end $$')

/** Returns doctor's findings about sequences. */
const behind = async (url: string) => (await examineDatabase(url)).findings.filter(({ id }) => id === 'sequence-behind')

describe.skipIf(withoutPrograms)('dumps', { timeout: 120_000 }, () => {
  test.skipIf(!runsAll)(
    'a dump that is restored twice into the same cluster repeats no fence and no job id',
    async () => {
      const server = await startCluster()
      const url = await server.createDatabase('app')
      const file = join(temporaryDirectory(), 'app.dump')
      const outside = new Outside()
      await outside.visit(url)
      await outside.visit(url)
      await dump(url, file)
      await outside.receivesMany(url)
      for (let visit = 0; visit < 3; visit++) await outside.visit(url)
      for (let time = 0; time < 2; time++) {
        const before = await generationOf(url)
        await runSteps('Restore a dump', { DATABASE_URL: url, DUMP: file })
        for (let visit = 0; visit < 3; visit++) await outside.visit(url)
        expect(await generationOf(url)).toBeLessThanOrEqual(before + 1)
        expect(await behind(url)).toEqual([])
      }
    },
  )

  test.skipIf(!runsAll)('a dump that is restored into another cluster repeats no fence and no job id', async () => {
    const [one, other] = [await startCluster(), await startCluster()]
    const file = join(temporaryDirectory(), 'app.dump')
    const outside = new Outside()
    const from = await one.createDatabase('app')
    await outside.visit(from)
    await dump(from, file)
    await outside.receivesMany(from)
    await outside.visit(from)
    const to = await other.createDatabase('app')
    await restore(to, file)
    for (let visit = 0; visit < 2; visit++) await outside.visit(to)
  })

  test.each(waysOf(['ahead of', 'behind']))(
    'each job of a dump runs once in another cluster if the transaction ids of the dump are %s those of the cluster',
    async (place) => {
      const [one, other] = [await startCluster(), await startCluster()]
      const file = join(temporaryDirectory(), 'app.dump')
      const from = await one.createDatabase('app')
      const to = await other.createDatabase('app')
      await useUpTransactionIds(place === 'behind' ? to : from)
      const ran: number[] = []
      const note = defineJob('note', { run: (_: null, { id }) => void ran.push(id) })
      const enqueue = async (instance: Holdfast, count: number) => {
        const refs = await instance.jobs.enqueueMany(note, Array(count).fill(null))
        return refs.map(({ id }) => id)
      }
      const before = await Holdfast.open({ url: from, expiry: '2s', log: false })
      const done = await enqueue(before, 3)
      const worker = before.jobs.work([note])
      for (const id of done) await before.jobs.result(id)
      await worker.close()
      const left = await enqueue(before, 5)
      await before.close()
      await dump(from, file)
      await restore(to, file)
      // The first client after the restore need not be an instance.
      const [early] = await sql<{ id: string }>(to, "select holdfast.enqueue('default', 'note', 'null') as id")
      const after = await open({ url: to, expiry: '2s' })
      const later = await enqueue(after, 5)
      after.jobs.work([note])
      const expected = [...done, ...left, Number(early!.id), ...later]
      await Promise.all(expected.map((id) => after.jobs.result(id, { wait: '20s' })))
      expect(ran.sort((a, b) => a - b)).toEqual(expected.sort((a, b) => a - b))
      expect(await sql(to, 'select * from holdfast.job_lost()')).toEqual([])
    },
  )

  test.skipIf(!runsAll)(
    'a dump that is restored in one transaction under open instances ends their sessions and repeats no fence',
    async () => {
      const server = await startCluster()
      const url = await server.createDatabase('app')
      const file = join(temporaryDirectory(), 'app.dump')
      const outside = new Outside()
      // This instance draws no fence after the dump, so it cannot detect the restore by its own fences.
      const idle = await open({ url, expiry: '3s' })
      const busy = await open({ url, expiry: '3s' })
      await outside.use(idle, url)
      await dump(url, file)
      await outside.use(busy, url)
      await outside.use(busy, url)
      await restore(url, file, '--clean', '--single-transaction')
      const first = await within(15_000, 'A grant', idle.locks.acquire('ledger', { wait: '15s' }))
      outside.accepts(first.fence, 'the first lock after the restore')
      await first.release()
      await outside.use(idle, url)
      await outside.use(busy, url)
    },
  )

  test.skipIf(!runsAll)(
    'a dump that is restored table by table under open instances is not changed before it is complete',
    async () => {
      const server = await startCluster()
      const url = await server.createDatabase('app')
      const file = join(temporaryDirectory(), 'app.dump')
      const outside = new Outside()
      const instances = [await open({ url, expiry: '2s' }), await open({ url, expiry: '2s', anchor: 'none' })]
      for (const [place, instance] of instances.entries()) await outside.use(instance, url, { sessions: place === 0 })
      await dump(url, file)
      for (const [place, instance] of instances.entries()) await outside.use(instance, url, { sessions: place === 0 })
      await sql(url, 'drop schema holdfast cascade')
      // The restore fails if an instance has written rows of the dump.
      await restore(url, file)
      for (const [place, instance] of instances.entries()) await outside.use(instance, url, { sessions: place === 0 })
    },
  )

  test.each(waysOf([true, false]))(
    'a data-only dump that is restored under an open instance starts a new generation (with an anchor: %s)',
    async (sessions) => {
      const server = await startCluster()
      const url = await server.createDatabase('app')
      const file = join(temporaryDirectory(), 'app.dump')
      const outside = new Outside()
      const instance = await open({ url, expiry: '2s', anchor: sessions ? 'required' : 'none' })
      await outside.use(instance, url, { sessions })
      await dump(url, file, '--data-only')
      await outside.use(instance, url, { sessions })
      const held = sessions ? await instance.locks.acquire('held') : undefined
      if (held) outside.accepts(held.fence, 'a lock that is held')
      const [tables] = await sql<{ names: string }>(
        url,
        `select string_agg(format('holdfast.%I', relname), ', ') as names
       from pg_class
       where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'p')`,
      )
      await sql(url, `set session_replication_role = replica; truncate ${tables!.names}`)
      await restore(url, file, '--single-transaction')
      // The tables and sequences stay the same, so only the heartbeat can detect the restore.
      if (held) await until('the instance has noticed the restore', () => held.signal.aborted)
      await outside.use(instance, url, { sessions })
    },
  )
})

describe.skipIf(withoutPrograms)('physical backups', { timeout: 120_000 }, () => {
  test('a server that is recovered to a point in time repeats no fence and no job id', async () => {
    const directory = temporaryDirectory()
    const [data, BACKUP, RECOVERED, ARCHIVE] = ['data', 'backup', 'recovered', 'archive'].map((name) =>
      join(directory, name),
    ) as [string, string, string, string]
    const server = await startCluster({ dataDir: data })
    const { uid, gid } = statSync(data)
    mkdirSync(ARCHIVE)
    chownSync(ARCHIVE, uid, gid)
    const url = await server.createDatabase('app')
    const outside = new Outside()
    const env = { DATABASE_URL: url, ARCHIVE, BACKUP, RECOVERED, TARGET: '' }
    await runSteps('Recover to a point in time', env, {
      user: { uid, gid },
      between: {
        '**Archive WAL files**': () => server.restart('fast'),
        '**Make a base backup**': async () => {
          await outside.visit(url)
          const [row] = await sql<{ now: string }>(url, 'select clock_timestamp()::text as now')
          env.TARGET = row!.now
          await outside.receivesMany(url)
          await outside.visit(url)
        },
        '**Stop the fleet, and then the server.**': () => server.stop(),
        '**Start the server**': async () => {
          const recovered = await startCluster({ dataDir: RECOVERED })
          env.DATABASE_URL = url.replace(`:${server.port}/`, `:${recovered.port}/`)
          await until('the recovered server is a primary', async () => {
            const [row] = await sql<{ replica: boolean }>(env.DATABASE_URL, 'select pg_is_in_recovery() as replica')
            return !row!.replica
          })
          for (let visit = 0; visit < 3; visit++) await outside.visit(env.DATABASE_URL)
        },
      },
    })
    expect(await sql(env.DATABASE_URL, 'select timeline from holdfast.server_generation')).toEqual([{ timeline: 2 }])
  })

  test.skipIf(!runsAll)('a copy of the files of a stopped server repeats no fence and no job id', async () => {
    const directory = temporaryDirectory()
    const [data, copy] = [join(directory, 'data'), join(directory, 'copy')]
    const server = await startCluster({ dataDir: data })
    const url = await server.createDatabase('app')
    const outside = new Outside()
    await outside.visit(url)
    await server.stop()
    execFileSync('cp', ['-a', data, copy])
    for (const dataDir of [data, copy]) {
      const started = await startCluster({ dataDir })
      const here = url.replace(`:${server.port}/`, `:${started.port}/`)
      for (let visit = 0; visit < 2; visit++) await outside.visit(here)
      if (dataDir === data) await outside.receivesMany(here)
      await started.stop()
    }
  })
})

describe.skipIf(withoutPrograms)('copies of a database', { timeout: 120_000 }, () => {
  test.skipIf(!runsAll)(
    'a copy by "create database … template" that replaces its original repeats no fence and no job id',
    async () => {
      const server = await startCluster()
      const url = await server.createDatabase('app')
      const outside = new Outside()
      await outside.visit(url)
      await server.createDatabase('copy', { template: 'app' })
      await outside.receivesMany(url)
      await outside.visit(url)
      await sql(server.url, 'drop database app with (force)')
      await sql(server.url, 'alter database copy rename to app')
      for (let visit = 0; visit < 3; visit++) await outside.visit(url)
    },
  )
})

describe.skipIf(withoutPrograms)('switches by logical replication', { timeout: 120_000 }, () => {
  test.skipIf(!runsAll)('a switch without copied sequences repeats no fence and no id', async () => {
    const settings = { wal_level: 'logical' }
    const [blue, green] = [await startCluster({ settings }), await startCluster({ settings })]
    const [from, to] = [await blue.createDatabase('app'), await green.createDatabase('app')]
    await install(from)
    const file = join(temporaryDirectory(), 'schema.dump')
    await dump(from, file, '--schema-only')
    await restore(to, file)
    await sql(
      from,
      'create publication holdfast for tables in schema holdfast with (publish_via_partition_root = true)',
    )
    const { username, password, port } = new URL(from)
    await sql(
      to,
      `create subscription holdfast connection 'host=127.0.0.1 port=${port} user=${username} password=${password} dbname=app'
       publication holdfast`,
    )
    const outside = new Outside()
    const moving = await Holdfast.open({ url: from, expiry: '2s', log: false })
    for (let use = 0; use < 3; use++) await outside.use(moving, from)
    // Waiting and cancelled jobs must be replicated, too.
    const [waiting] = await sql<{ id: string }>(from, "select holdfast.enqueue('left', 'mail', '{}') as id")
    outside.receives(waiting!.id)
    const [stopped] = await sql<{ id: string }>(from, "select holdfast.enqueue('left', 'mail', '{}') as id")
    outside.receives(stopped!.id)
    await moving.jobs.cancel(Number(stopped!.id))
    // The partitioned tables have no primary keys, and the published tables must still accept changes.
    await sql(from, "update holdfast.job_stopped set progress = '1'")
    await sql(from, 'select holdfast.job_roll_partitions(14)')
    await sql(from, audit)
    await moving.close()
    await until('the subscriber has caught up', async () => {
      const [row] = await sql<{ done: boolean }>(
        from,
        `select bool_and(replay_lsn >= pg_current_wal_flush_lsn()) as done from pg_stat_replication
         where application_name = 'holdfast'`,
      )
      const [state] = await sql<{ ready: boolean }>(
        to,
        "select bool_and(srsubstate = 'r') as ready from pg_subscription_rel",
      )
      return row?.done && state!.ready
    })
    await sql(to, 'drop subscription holdfast')
    expect((await behind(to)).map(({ subject }) => subject).sort()).toEqual(
      expect.arrayContaining(['audit_number', 'fence', 'job_number']),
    )
    // The first client after the switch need not be an instance.
    const [first] = await sql<{ id: string }>(to, "select holdfast.enqueue('left', 'mail', '{}') as id")
    outside.receives(first!.id)
    for (let visit = 0; visit < 3; visit++) await outside.visit(to)
    await sql(to, 'select holdfast.catch_up_sequences()')
    await sql(to, audit)
    expect(await behind(to)).toEqual([])
    const left = "select id from holdfast.job_live where queue = holdfast.lock_key('default', 'queue/left') order by id"
    expect((await sql<{ id: string }>(to, left)).map(({ id }) => id)).toEqual([waiting!.id, first!.id])
    expect(await sql(to, "select state from holdfast.job_history where progress::text = '1'")).toEqual([
      { state: 'cancelled' },
    ])
    const replicated = "select count(*)::integer as jobs from holdfast.job_history where state = 'done'"
    expect(await sql(to, replicated)).toEqual([{ jobs: 6 }])
    const ran: number[] = []
    const last = await open({ url: to, expiry: '2s' })
    last.jobs.work([defineJob('mail', { run: (_: object, { id }) => void ran.push(id) })], { queues: ['left'] })
    await Promise.all([waiting!, first!].map(({ id }) => last.jobs.result(Number(id), { wait: '20s' })))
    expect(ran).toEqual([Number(waiting!.id), Number(first!.id)])
    expect(await sql(to, 'select * from holdfast.job_lost()')).toEqual([])
  })
})

describe.skipIf(withoutPrograms)('pg_upgrade', { timeout: 120_000 }, () => {
  test.skipIf(!runsAll)('pg_upgrade keeps all data, and later fences and ids are larger', async () => {
    const directory = temporaryDirectory()
    const [old, upgraded] = [join(directory, 'old'), join(directory, 'new')]
    const server = await startCluster({ dataDir: old })
    const url = await server.createDatabase('app')
    const outside = new Outside()
    await outside.visit(url)
    await outside.visit(url)
    const fresh = await startCluster({ dataDir: upgraded })
    for (const one of [server, fresh]) await sql(one.url, `alter role postgres password '${new URL(url).password}'`)
    await server.stop()
    await fresh.stop()
    for (const path of [old, upgraded])
      writeFileSync(join(path, 'pg_hba.conf'), 'local all all trust\nhost all all 127.0.0.1/32 trust\n')
    const at = [programsDirectory, programsDirectory, old, upgraded]
    const args = ['-b', '-B', '-d', '-D'].flatMap((option, place) => [option, at[place]!])
    execFileSync('chmod', ['777', directory])
    await runProgram('pg_upgrade', [...args, '-U', 'postgres', '-s', '/tmp'], upgraded)
    const now = await startCluster({ dataDir: upgraded })
    const address = url.replace(`:${server.port}/`, `:${now.port}/`)
    for (let visit = 0; visit < 3; visit++) await outside.visit(address)
  })
})
