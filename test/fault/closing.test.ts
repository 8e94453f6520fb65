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

// close() leaves nothing behind, in any state of the instance.

test('close releases held locks, rejects waiting and new calls, and leaves no session', async () => {
  const { url, witness } = await openDatabase()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  await b.locks.acquire(['b1', 'b2'])
  const held = await Promise.all([a.locks.acquire('x'), a.locks.acquire('y', { mode: 'shared' })])
  const waiting = ['b1', 'b2', 'x'].map((name) => a.locks.acquire(name).catch((error) => error))
  await witness.seesWaiter(2)
  const newCalls = [a.locks.acquire('b1'), a.locks.tryAcquire('z')].map((call) => call.catch((error) => error))
  await within(5_000, 'Closing', a.close())
  expect(held.map((lock) => [lock.held, lock.signal.aborted])).toEqual([
    [false, true],
    [false, true],
  ])
  for (const refused of await Promise.all(waiting)) expect(refused).toMatchObject({ code: 'CLOSED' })
  // The server may have granted a name before close() reached the locks. Then close() has released it.
  for (const call of await Promise.all(newCalls)) expect(call.held === false || call.code === 'CLOSED').toBe(true)
  await until('no session is left', async () => (await witness.sessions(a.id)).length === 0)
  expect(await witness.locks()).toHaveLength(2)
  await b.close()
  await until('no session is left', async () => (await witness.sessions()).length === 0)
})

test('close leaves no session if a wait connection is still opening', async () => {
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

test('close does not wait for a database that is down', async () => {
  const { server, url, witness } = await openServer()
  const [a, b] = [await openInstance(url), await openInstance(url)]
  await a.locks.acquire('x')
  const waiting = [b.locks.acquire('x'), b.locks.acquire('y'), b.locks.acquire(['x', 'z'])]
  const refused = Promise.all(waiting.map((call) => call.catch((error) => error)))
  await witness.seesWaiter()
  await server.stop('immediate')
  await until('the instance notices the loss', () =>
    b.locks.tryAcquire('w').then(
      () => false,
      () => true,
    ),
  )
  await within(3 * expiryMs, 'Closing', Promise.all([a.close(), b.close()]))
  for (const error of await refused) expect(error?.held === false || error?.code === 'CLOSED').toBe(true)
})

test('close of a pool does not wait for the timeout of a connection attempt in a silent network', async () => {
  const { url } = await openDatabase()
  const proxy = await openProxy(url)
  const database = openPgPool({ connectionString: proxy.through(url) })
  const connecting = new Promise<void>((reached) => {
    proxy.onConnection = (link) => {
      link.silence('to-server', 'to-client')
      reached()
    }
  })
  const call = database.query('select 1').catch((error) => error)
  await connecting
  // A connection attempt times out after ten seconds.
  await within(8_000, 'Closing', database.close())
  expect(await call).toMatchObject({ code: 'DATABASE_UNREACHABLE' })
})

test.each(waysOf(['none', 'required']))(
  'close in a silent network waits once and not for each room (anchor: %s)',
  { timeout: 90_000 },
  async (anchor) => {
    const { url } = await openDatabase()
    const proxy = await openProxy(url)
    const a = await openInstance(proxy.through(url), { anchor })
    const untilStopped = ({ signal }: { signal: AbortSignal }) =>
      new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    const started = new Set<string>()
    const start = (what: string, given: { signal: AbortSignal }) => {
      started.add(what)
      return untilStopped(given)
    }
    a.elections.campaign('leads', (leadership) => start('a leadership', leadership))
    a.shares.assign('owns', ['this'], (_, owned) => start('an ownership', owned))
    const job = defineJob('works', { run: (_: unknown, context) => start('a job', context) })
    a.jobs.work([job])
    await a.jobs.enqueue(job, {})
    a.schedules.add('ticks', { every: '1s' }, (run) => start('a run', run))
    await a.limits.acquire('permit', { max: 2 })
    await a.leases.acquire('lease', { ttl: '1h' })
    if (anchor === 'required') await a.locks.acquire('lock')
    await until('all handlers have started', () => started.size === 4, 30_000)
    proxy.onConnection = (link) => link.silence('to-server', 'to-client')
    proxy.silence('to-server', 'to-client')
    const closedFrom = performance.now()
    await within(40_000, 'Closing', a.close())
    console.log(`anchor ${anchor}: closed in silence after ${(performance.now() - closedFrom).toFixed(0)} ms`)
  },
)

test('a pool with shortened timeouts does not wait for further statements after one response has not arrived', async () => {
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
  const tookBefore = [await tookMs(), await tookMs()]
  database.shortenTimeouts()
  const tookAfter = await tookMs()
  expect(tookAfter).toBeLessThan(Math.min(...tookBefore) / 2)
  // The timeouts are long again after the first response.
  proxy.onConnection = () => {}
  await until('the network works again', () =>
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
  'a program whose pool an instance uses': {
    name: 'own pool',
    async open(url) {
      const pool = new pg.Pool({ connectionString: url, application_name: 'own pool' })
      const instance = await Holdfast.open({ pool, log: false })
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
  'the pool of %s emits no uncaught error if the server ends a connection that the pool is closing',
  async (what) => {
    const { name, open } = withPools[what]!
    const { url, witness } = await openDatabase()
    const proxy = await openProxy(url)
    const opened = await open(proxy.through(url))
    const uncaught: Error[] = []
    const record = (error: Error) => uncaught.push(error)
    process.on('uncaughtException', record)
    onTestFinished(() => void process.off('uncaughtException', record))
    // The server does not receive the client's termination message, so the server ends the connection first.
    proxy.silence('to-server')
    const pooled = await witness.query<{ pid: number }>(
      'select pid from pg_stat_activity where application_name = $1 and datname = current_database()',
      [name],
    )
    expect(pooled).not.toEqual([])
    await opened.close()
    for (const { pid } of pooled) await witness.terminate(pid)
    await until('the clients have noticed the end of their connections', () => proxy.open === 0)
    expect(uncaught).toEqual([])
  },
)
