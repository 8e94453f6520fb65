import { Command } from 'commander'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/cli/connect.js'
import { Settings } from '../../src/cli/settings.js'
import { dashboard } from '../../src/dashboard/index.js'
import { DatabaseUnreachableError, defineJob, Holdfast } from '../../src/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { caught, until, within } from '../setup/facts.js'
import { waysOf } from '../setup/variants.js'
import { expiryMs, openDatabase, openInstance, openProxy, openServer } from './fixture.js'

// After close() nothing of the instance is left, whatever it was in the middle of.

test('close releases all that is held, waited for and just asked for, and leaves no session', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  await b.locks.acquire(['b1', 'b2'])
  const held = await Promise.all([a.locks.acquire('x'), a.locks.acquire('y', { mode: 'shared' })])
  const waiting = ['b1', 'b2', 'x'].map((name) => a.locks.acquire(name).catch((error) => error))
  await witness.seesWaiter(2)
  const justAsked = [a.locks.acquire('b1'), a.locks.tryAcquire('z')].map((asked) => asked.catch((error) => error))
  await within(5_000, 'Closing', a.close())
  expect(held.map((lock) => [lock.held, lock.signal.aborted])).toEqual([
    [false, true],
    [false, true],
  ])
  for (const refused of await Promise.all(waiting)) expect(refused).toMatchObject({ code: 'CLOSED' })
  // The server may have granted a name before close reached the locks. Then close has released it.
  for (const asked of await Promise.all(justAsked)) expect(asked.held === false || asked.code === 'CLOSED').toBe(true)
  await until('no session is left', async () => (await witness.sessions(a.id)).length === 0)
  expect(await witness.locks()).toHaveLength(2)
  await b.close()
  await until('no session is left', async () => (await witness.sessions()).length === 0)
})

test('close in the middle of opening a parked connection leaves no session', async () => {
  const { url, witness } = await openDatabase()
  const proxy = await openProxy(url)
  const [a, b] = [await openInstance(url), await openInstance(proxy.through(url))]
  await a.locks.acquire('x')
  const connecting = new Promise<() => void>((reached) => {
    proxy.onConnection = () => new Promise<void>((go) => reached(go))
  })
  const waiting = b.locks.acquire('x').catch((error) => error)
  const go = await connecting
  const closed = b.close()
  go()
  await within(5_000, 'Closing', closed)
  expect(await waiting).toMatchObject({ code: 'CLOSED' })
  await until('no session is left', async () => (await witness.sessions(b.id)).length === 0)
})

test('close while the database is away does not wait for it', async () => {
  const { server, url, witness } = await openServer()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  await a.locks.acquire('x')
  const waiting = [b.locks.acquire('x'), b.locks.acquire('y'), b.locks.acquire(['x', 'z'])]
  const refused = Promise.all(waiting.map((asked) => asked.catch((error) => error)))
  await witness.seesWaiter()
  await server.stop('immediate')
  await until('the loss is noticed', () =>
    b.locks.tryAcquire('w').then(
      () => false,
      () => true,
    ),
  )
  await within(3 * expiryMs, 'Closing', Promise.all([a.close(), b.close()]))
  for (const error of await refused) expect(error?.held === false || error?.code === 'CLOSED').toBe(true)
})

test('close in the middle of connecting, in silence, does not wait until that is given up', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  const database = openPgPool({ connectionString: proxy.through(url) })
  const connecting = new Promise<void>((reached) => {
    proxy.onConnection = (link) => {
      link.silence('to-server', 'to-client')
      reached()
    }
  })
  const asked = database.query('select 1').catch((error) => error)
  await connecting
  // An attempt is given up after ten seconds.
  await within(8_000, 'Closing', database.close())
  expect(await asked).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
})

test.each(waysOf(['none', 'required']))(
  'close of all rooms, in silence, does not wait for each of them anew: anchor %s',
  { timeout: 90_000 },
  async (anchor) => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor })
    const untilStopped = ({ signal }: { signal: AbortSignal }) =>
      new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    const begun = new Set<string>()
    const begins = (what: string, given: { signal: AbortSignal }) => {
      begun.add(what)
      return untilStopped(given)
    }
    a.elections.campaign('leads', (leadership) => begins('a leadership', leadership))
    a.shares.assign('owns', ['this'], (_, owned) => begins('an ownership', owned))
    const job = defineJob('works', { run: (_: unknown, context) => begins('a job', context) })
    a.jobs.work([job])
    await a.jobs.enqueue(job, {})
    a.schedules.add('ticks', { every: '1s' }, (run) => begins('a run', run))
    await a.limits.acquire('permit', { max: 2 })
    await a.leases.acquire('lease', { ttl: '1h' })
    if (anchor === 'required') await a.locks.acquire('lock')
    await until('all is under way', () => begun.size === 4, 30_000)
    proxy.onConnection = (link) => link.silence('to-server', 'to-client')
    proxy.silence('to-server', 'to-client')
    const closedFrom = performance.now()
    await within(40_000, 'Closing', a.close())
    console.log(`anchor ${anchor}: closed in silence after ${(performance.now() - closedFrom).toFixed(0)} ms`)
  },
)

test('whoever is in a hurry waits once for an answer that does not come, and not for the next', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  const database = openPgPool({ connectionString: proxy.through(url) })
  const tookMs = async () => {
    const from = performance.now()
    await caught(DatabaseUnreachableError, database.query('select 1', [], 3_000))
    return performance.now() - from
  }
  await database.query('select 1', [], 3_000)
  proxy.onConnection = (link) => link.silence('to-server', 'to-client')
  proxy.silence('to-server', 'to-client')
  const unhurried = [await tookMs(), await tookMs()]
  database.shortenTimeouts()
  const hurried = await tookMs()
  expect(hurried).toBeLessThan(Math.min(...unhurried) / 2)
  // Patient again as soon as there is an answer.
  proxy.onConnection = () => {}
  await until('the network is back', () =>
    database.query('select 1', [], 3_000).then(
      () => true,
      () => false,
    ),
  )
  await database.query('select pg_sleep(1.5)', [], 3_000)
  await database.close()
  await proxy.close()
})

const withPools: Record<string, { name: string; open(url: string): Promise<{ close(): Promise<void> }> }> = {
  'an instance': { name: 'holdfast', open: (url) => openInstance(url) },
  'the program that an instance used': {
    name: 'of the program',
    async open(url) {
      const pool = new pg.Pool({ connectionString: url, application_name: 'of the program' })
      const instance = await Holdfast.open({ pool })
      return {
        async close() {
          await instance.close()
          await pool.end()
        },
      }
    },
  },
  'a dashboard': {
    name: 'holdfast dashboard',
    async open(url) {
      const board = dashboard({ url })
      await board.fetch(new Request('http://localhost/api/me'), { remoteAddress: '127.0.0.1' })
      return board
    },
  },
  'the command line': {
    name: 'holdfast command line',
    async open(url) {
      const { database } = connect(
        new Settings(new Command().option('--url <url>').setOptionValueWithSource('url', url, 'cli')),
      )
      await database.query('select')
      return database
    },
  },
}

test.each(Object.keys(withPools))(
  'a connection of the pool of %s that is ended while it says goodbye does not end the process',
  async (what) => {
    const { name, open } = withPools[what]!
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const opened = await open(proxy.through(url))
    const uncaught: Error[] = []
    const note = (error: Error) => uncaught.push(error)
    process.on('uncaughtException', note)
    onTestFinished(() => void process.off('uncaughtException', note))
    // The server does not hear the goodbye, and speaks first.
    proxy.silence('to-server')
    const pooled = await witness.query<{ pid: number }>(
      'select pid from pg_stat_activity where application_name = $1 and datname = current_database()',
      [name],
    )
    expect(pooled).not.toEqual([])
    await opened.close()
    for (const { pid } of pooled) await witness.terminate(pid)
    await until('the news has come', () => proxy.open === 0)
    expect(uncaught).toEqual([])
  },
)
