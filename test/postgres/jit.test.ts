// A server with LLVM compiles each statement whose estimated cost is high enough. The compilation takes seconds, for a
// statement that runs for milliseconds. No statement of Holdfast may be compiled. The embedded PostgreSQL has no LLVM, so these
// tests start a server that has it.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startPooler } from '../../faults/pooler.js'
import { views } from '../../src/dashboard/views/index.js'
import { examine } from '../../src/doctor/index.js'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'
import { defineJob, Holdfast, UnknownQueueError } from '../../src/index.js'
import { fleetMetrics, Observer } from '../../src/observe/index.js'
import { type Database, fromPgPool, migrate, openPgPool } from '../../src/postgres/index.js'
import { readJobSearch } from '../../src/search/index.js'
import { drain } from '../../src/testing/index.js'
import { verbs } from '../cli/commands.js'
import { run } from '../cli/program.js'
import { board, serve } from '../dashboard/fixture.js'
import { withoutPgBouncer } from '../pooler/pgbouncer.js'
import { tour } from '../security/tour.js'
import { caught, sql, sqlPool, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'

const binDir = [process.env.HOLDFAST_TEST_PG_BIN, '/usr/lib/postgresql/15/bin'].find(
  (directory) => directory && existsSync(join(directory, '../lib/llvmjit.so')),
)
if (binDir === undefined)
  console.warn('No PostgreSQL with LLVM (Debian: postgresql-15) is installed: its tests are skipped.')

const settings = {
  fsync: 'off',
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track': 'all',
  'pg_stat_statements.max': '20000',
  // Keeps the table sizes that a test pretends.
  autovacuum: 'off',
  max_connections: '200',
}

let server: EmbeddedServer
beforeAll(async () => {
  if (binDir !== undefined) server = await startEmbedded({ binDir, settings })
})
afterAll(async () => await server?.stop('immediate'))

/** Creates a database with Holdfast. Returns its URL for the administrator and for the role whose statements are checked. */
async function watchedDatabase(name: string, roleSettings: Record<string, string>) {
  const admin = await server.createDatabase(name)
  await sql(admin, 'create extension pg_stat_statements')
  const database = openPgPool({ connectionString: admin })
  await migrate(database, 'holdfast')
  await database.close()
  await sql(admin, `create role ${name} login superuser password 'secret'`)
  for (const [setting, value] of Object.entries({ jit: 'on', ...roleSettings })) {
    await sql(admin, `alter role ${name} set ${setting} = ${value}`)
  }
  const url = new URL(admin)
  url.username = name
  url.password = 'secret'
  const compiled = async () => {
    const rows = await sql<{ query: string }>(
      admin,
      'select query from pg_stat_statements where jit_functions > 0 and userid = $1::regrole',
      [name],
    )
    return rows.map(({ query }) => query.replace(/\s+/g, ' ').slice(0, 200))
  }
  return { admin, url: url.href, compiled }
}

/**
 * With these settings the server compiles every statement that it can, except a statement that only calls a function or two and
 * reads no table.
 */
const everything = { jit_above_cost: '1', jit_inline_above_cost: '1', jit_optimize_above_cost: '1' }

/** Creates one row of everything that can be shown. */
async function createOneOfEach(holdfast: Holdfast) {
  const lock = await holdfast.locks.acquire('nightly')
  await holdfast.leases.acquire('etl', { ttl: '1h' })
  await holdfast.limits.acquire('export', { max: 1 })
  await holdfast.limits.consume('api', { rate: '5/h' })
  await holdfast.once.run('stripe:1', () => 'paid')
  holdfast.schedules.add('books', { every: '1h' }, () => {})
  const runs = async () => (await holdfast.schedules.runs('books')).flatMap((past) => ('state' in past ? [past] : []))
  await until('the schedule accepts a run', () => holdfast.schedules.run('books').catch(() => null))
  await until('the run is done', async () => (await runs()).some(({ state }) => state === 'done'))
  const echo = defineJob('echo', { run: (input: unknown) => input })
  const worker = holdfast.jobs.work([echo])
  const done = await holdfast.jobs.enqueue(echo, 1)
  await holdfast.jobs.result(done.id, { wait: '15s' })
  await worker.close()
  await holdfast.jobs.enqueue(echo, 2)
  await holdfast.jobs.enqueue(echo, 3, { delay: '1h' })
  return {
    key: lock.keys[0]!,
    instance: holdfast.id,
    job: String(done.id),
    tick: (await runs())[0]!.tick.toISOString(),
  }
}

type Facts = Awaited<ReturnType<typeof createOneOfEach>>

/** Calls all readers of the observer, and the doctor. */
async function readAll(database: Database, { key, instance, job, tick }: Facts): Promise<void> {
  const observer = new Observer(database)
  const { limits, deliveries, schedules, fleet, jobs } = observer
  const namespace = 'shop'
  await observer.overview()
  await observer.names()
  await observer.proof()
  await observer.locks()
  await observer.leases()
  await observer.graph()
  await observer.holdTimeline()
  await observer.terms(namespace, 'nightly')
  await observer.trends()
  await observer.activity()
  await observer.changes()
  await observer.hasBlockedWaits()
  await observer.fleet.list()
  await observer.jobs.queues({ namespace })
  await observer.jobs.search({})
  await observer.jobs.search({ kinds: ['echo'] })
  await observer.nameOf(key)
  await observer.now()
  await limits.list({ namespace })
  await limits.hasMore()
  await limits.find(namespace, 'export', 10)
  await deliveries.search({})
  await deliveries.find(namespace, 'stripe:1')
  await fleet.list()
  await fleet.workOf(instance)
  await jobs.queues()
  await jobs.search(readJobSearch('kind:echo'))
  await jobs.find(Number(job))
  await schedules.list()
  await schedules.find(namespace, 'books')
  await schedules.run(namespace, 'books', new Date(tick))
  await schedules.tickTimeline({ minutes: 60, steps: 60 })
  await fleetMetrics(database, namespace)
  const { findings } = await examine({ database })
  expect(findings.filter(({ severity }) => severity === 'unchecked')).toEqual([])
}

describe.skipIf(binDir === undefined)('a server that compiles every statement that it can', () => {
  let admin: string
  let url: string
  let compiled: () => Promise<string[]>
  let holdfast: Holdfast
  let facts: Facts
  beforeAll(async () => {
    ;({ admin, url, compiled } = await watchedDatabase('readers', everything))
    holdfast = await Holdfast.open({ url: admin, namespace: 'shop' })
    facts = await createOneOfEach(holdfast)
    // Proves that the server compiles a statement.
    await sql(url, 'select count(*) from holdfast.job')
    expect(await compiled()).toEqual([expect.stringContaining('select count(*) from holdfast.job')])
    await sql(admin, 'select pg_stat_statements_reset()')
  })
  afterAll(async () => await holdfast.close())

  const ways: Record<string, (url: string) => Promise<Database> | Database> = {
    'a pool of Holdfast': (url) => openPgPool({ connectionString: url }),
    'a pool of the program': (url) => fromPgPool(sqlPool({ connectionString: url })),
  }
  test.each(Object.entries(ways))('the readers on %s are not compiled', async (_, connect) => {
    const database = await connect(url)
    await readAll(database, facts)
    await database.close()
    expect(await compiled()).toEqual([])
  })

  test.skipIf(withoutPgBouncer)(
    'the readers are not compiled through PgBouncer, and its other clients are compiled as before',
    async () => {
      const pooler = await startPooler(url, { mode: 'transaction', backends: 1 })
      const pool = sqlPool({ connectionString: pooler.through(url) })
      const show = (name: string) => pool.query(`show ${name}`).then(({ rows }) => Object.values(rows[0]!)[0])
      const database = fromPgPool(pool)
      expect([await show('jit'), await show('search_path')]).toEqual(['on', '"$user", public'])
      await readAll(database, facts)
      expect([await show('jit'), await show('search_path')]).toEqual(['on', '"$user", public'])
      await database.close()

      expect(await compiled()).toEqual([])
    },
  )

  const boards: Record<string, (url: string) => Promise<string>> = {
    'its own pools': (url) => serve(board({ url })),
    'a pool of the program': (url) => serve(board({ pool: sqlPool({ connectionString: url }) })),
  }
  test.each(Object.entries(boards))('the statements of the dashboard on %s are not compiled', async (_, open) => {
    const base = await open(url)
    const given: Record<string, string> = {
      namespace: 'shop',
      minutes: '60',
      steps: '60',
      key: facts.key,
      tick: facts.tick,
    }
    const named: Record<string, string> = {
      delivery: 'stripe:1',
      limit: 'export',
      instance: facts.instance,
      job: facts.job,
    }
    for (const [view, { needs }] of Object.entries(views)) {
      const params = Object.keys(needs).map((need): [string, string] => {
        const isOwn = view in named && need !== 'namespace'
        return [need, isOwn ? named[view]! : (given[need] ?? 'books')]
      })
      const answer = await (await fetch(`${base}/api/view/${view}?${new URLSearchParams(params)}`)).json()
      expect(answer, view).toMatchObject({ at: expect.any(String) })
    }
    expect(await compiled()).toEqual([])
  })

  test('the statements of an anchor on its own session are not compiled', async () => {
    await (await Holdfast.open({ url, namespace: 'shop' })).close()
    const [seen] = await sql<{ statements: number }>(
      admin,
      `select count(*)::integer as statements from pg_stat_statements
       where query like '%from pg_settings%' and userid = 'readers'::regrole`,
    )
    expect(seen!.statements).toBeGreaterThan(0)
    expect((await compiled()).filter((query) => query.includes('pg_settings'))).toEqual([])
    await sql(admin, 'select pg_stat_statements_reset()')
  })

  test('the statements of the command line are not compiled', { timeout: 60_000 }, async () => {
    const [readers, one] = [
      verbs.filter(({ words: [noun, verb] }) => verb === 'ls' && noun !== 'schedule'),
      ['lock', 'lease', 'limit', 'delivery', 'instance'],
    ]
    // A member of the fleet reads schedules. The test of all rooms covers its statements.
    expect(readers.length).toBeGreaterThan(6)
    const shown: Record<string, string> = {
      lock: 'nightly',
      lease: 'etl',
      limit: 'export',
      delivery: 'stripe:1',
      instance: facts.instance,
    }
    const commands = [
      ...readers.map(({ words }) => words),
      ...one.map((noun) => [noun, 'show', shown[noun]!]),
      ['graph'],
      ['top', '--once'],
      ['doctor'],
    ]
    for (const words of commands) {
      const ended = await run(words, { DATABASE_URL: url, HOLDFAST_NAMESPACE: 'shop' })
      expect([words, ended.stderr, [0, 3].includes(ended.status!)]).toEqual([words, expect.any(String), true])
    }
    expect(await compiled()).toEqual([])
  })
})

/** PostgreSQL estimates costs as if the tables of Holdfast had this number of rows. */
const [manyRows, largeFleet] = [50_000_000, 10_000]
/** Tables that have as many rows as the fleet has members. */
const ofFleet = ['instance', 'worker', 'candidate', 'claim', 'schedule_member', 'share_member', 'wait']
const ofOneRow = ['migration', 'applied_functions', 'server_generation']

describe.skipIf(binDir === undefined).each(['required', 'none'] as const)('with the anchor %s', (anchor) => {
  test('the server compiles no statement of any room, however large the tables are', {
    timeout: 90_000,
  }, async () => {
    const { admin, url, compiled } = await watchedDatabase(`rooms_${anchor}`, {})
    await sql(
      admin,
      `update pg_class
       set relpages = 1, reltuples = case when tables.relname = any('{${ofFleet}}') then ${largeFleet} else ${manyRows} end
       from pg_index right join pg_class as tables on indrelid = tables.oid
       where pg_class.oid in (tables.oid, indexrelid)
         and tables.relnamespace = 'holdfast'::regnamespace
         and tables.relkind = 'r'
         and tables.relname <> all('{${ofOneRow}}')`,
    )
    // All sweeps are due immediately, instead of at a random time within an hour.
    vi.spyOn(Math, 'random').mockReturnValue(0)
    onTestFinished(() => void vi.restoreAllMocks())
    // Once a table has a row, PostgreSQL assumes the pretended size.
    await tour(url, { anchor })
    const holdfast = await open({ url, anchor })
    await holdfast.samples.sweep()
    await caught(UnknownQueueError, holdfast.jobs.pause('no such queue'))
    await drain(holdfast, [defineJob('drained', { run: () => {} })])
    await holdfast.limits.with('presence', { max: 1 }, () =>
      until('all sweeps have run', async () => {
        const rows = await sql<{ query: string }>(admin, 'select query from pg_stat_statements')
        return ['lease', 'share_done', 'instance'].every((table) =>
          rows.some(({ query }) => query.includes(`delete from holdfast.${table}\n`)),
        )
      }),
    )
    // Proves that the server compiles a statement.
    await sql(url, 'select count(*) from holdfast.name')
    expect(await compiled()).toEqual([expect.stringContaining('select count(*) from holdfast.name')])
  })
})
