// Names of instances: the default, the checks, and the suffix that keeps two live instances apart.
import { hostname } from 'node:os'
import { expect, test } from 'vitest'
import { type Holdfast, type HoldfastOptions, UsageError } from '../../src/index.js'
import { caught, sql, until } from '../setup/facts.js'
import { anchorPid, databaseUrl, open } from '../setup/instances.js'

const ownName = `${hostname()}/${process.pid}`

const namesIn = async (url: string) =>
  (await sql<{ name: string }>(url, 'select name from holdfast.instance order by name')).map(({ name }) => name)

/** Makes an instance present, which without an anchor is only necessary for some calls. */
async function present(instance: Holdfast): Promise<Holdfast> {
  await instance.limits.acquire(`of ${instance.id}`, { max: 1, wait: '20s' })
  return instance
}

test('an instance without the `name` option is named after its host and process, with a suffix if necessary', async () => {
  const url = await databaseUrl()
  const first = await open({ url })
  const second = await open({ url })
  expect([first.name, second.name]).toEqual([ownName, `${ownName}#2`])
  expect(await namesIn(url)).toEqual([ownName, `${ownName}#2`])
  // The default may repeat, so the suffix is no reason for a warning.
  expect((await second.health()).status).toBe('up')
})

test('a second live instance with the same name gets a suffix, an event and a health reason', async () => {
  const url = await databaseUrl()
  const first = await open({ url, name: 'worker-3' })
  const second = await open({ url, name: 'worker-3' })
  const events: unknown[] = []
  second.on('instance.name-taken', (event) => events.push(event))
  expect([first.name, second.name]).toEqual(['worker-3', 'worker-3#2'])
  await until('the event is emitted', () => events.length === 1)
  expect(events).toEqual([{ wanted: 'worker-3', name: 'worker-3#2' }])
  expect(await first.health()).toMatchObject({ status: 'up', name: 'worker-3' })
  expect(await second.health()).toMatchObject({
    status: 'degraded',
    name: 'worker-3#2',
    reasons: [
      {
        code: 'NAME_TAKEN',
        message: 'Another live instance already uses the name "worker-3", so this instance uses the name "worker-3#2"',
      },
    ],
  })
  // In another namespace, the name is free.
  expect((await open({ url, namespace: 'other', name: 'worker-3' })).name).toBe('worker-3')
  await first.close()
  await until('the second instance is healthy', async () => (await second.health()).status === 'up')
  // The first free name is reused.
  expect((await open({ url, name: 'worker-3' })).name).toBe('worker-3')
})

test('the name of an instance that died is free immediately, although its row still exists', async () => {
  const url = await databaseUrl()
  await sql(
    url,
    `insert into holdfast.instance (id, namespace, name, session, host, os_pid, version, expiry_ms, pooler, generation)
     select 'dead', 'default', 'worker-3', -7, 'h', 1, '0', 2000, 'none', generation from holdfast.server_generation`,
  )
  expect((await open({ url, name: 'worker-3' })).name).toBe('worker-3')
})

const variants: [string, Partial<HoldfastOptions>, string][] = [
  ['with an anchor', {}, 'read committed'],
  ['without an anchor', { anchor: 'none' }, 'read committed'],
  ['with an anchor, where transactions are repeatable read by default,', {}, 'repeatable read'],
  ['without an anchor, where transactions are repeatable read by default,', { anchor: 'none' }, 'repeatable read'],
]
for (const [variant, options, isolation] of variants) {
  test(`20 instances ${variant} that open at the same time with the same name get 20 different names`, async () => {
    const url = await databaseUrl()
    const database = new URL(url).pathname.slice(1)
    await sql(url, `alter database ${database} set default_transaction_isolation = '${isolation}'`)
    const opening = Array.from({ length: 20 }, async () => present(await open({ url, name: 'worker', ...options })))
    const names = (await Promise.all(opening)).map(({ name }) => name)
    const expected = ['worker', ...Array.from({ length: 19 }, (_, at) => `worker#${at + 2}`)]
    expect(names.toSorted()).toEqual(expected.toSorted())
    expect(await namesIn(url)).toEqual(names.toSorted())
  })
}

test('an instance that reconnects keeps its name, or gets a suffix if another instance has taken the name', async () => {
  const url = await databaseUrl()
  const first = await open({ url, name: 'worker-3' })
  const second = await open({ url, name: 'worker-3' })
  const reconnected = async (instance: Holdfast, act: () => Promise<unknown>) => {
    const back = new Promise<void>((resolve) => instance.on('instance.reconnected', () => resolve()))
    await act()
    await back
  }
  const end = async (instance: Holdfast) =>
    sql(url, 'select pg_terminate_backend($1)', [await anchorPid(url, instance)])
  await reconnected(second, () => end(second))
  expect(second.name).toBe('worker-3#2')
  // The second instance takes the name while the first instance has no session.
  await reconnected(first, () =>
    sql(
      url,
      `with ended as materialized (select pg_terminate_backend(backend_pid) from holdfast.instance where id = $1)
       update holdfast.instance set name = 'worker-3' from ended where id = $2`,
      [first.id, second.id],
    ),
  )
  expect(first.name).toBe('worker-3#2')
  expect(await namesIn(url)).toEqual(['worker-3', 'worker-3#2'])
  // History refers to each epoch by its session number.
  const [row] = await sql<{ name: string; sessions: number[]; host: string }>(
    url,
    'select * from holdfast.instance_name where id = $1',
    [first.id],
  )
  expect(row).toMatchObject({ name: 'worker-3#2', host: hostname(), os_pid: process.pid, gone_at: null })
  expect(row!.sessions).toHaveLength(2)
})

test('a value that cannot be a name is rejected', async () => {
  const url = await databaseUrl()
  const expected = 'Expected the name of the instance to be a string of 1 to 63 printable characters without "#", got '
  const values: [unknown, string][] = [
    ['', '"" (string)'],
    ['x'.repeat(64), ''],
    ['worker#2', '"worker#2" (string)'],
    ['two\nlines', ''],
    [' worker', ''],
    ['\u001b[31m', ''],
    [7, '7 (number)'],
  ]
  for (const [name, got] of values) {
    const error = await caught(UsageError, open({ url, name: name as string }))
    expect(error.message).toContain(expected + got)
  }
  const missing = await caught(UsageError, open({ url, name: `worker-${'undefined'}/${undefined}` }))
  expect(missing.message).toContain('the name of the instance')
  expect((await open({ url, name: 'Größe 3/blau' })).name).toBe('Größe 3/blau')
  expect((await open({ url, name: 'x'.repeat(63) })).name).toBe('x'.repeat(63))
})

test('a sweep deletes the name of an instance that has been gone for a month', async () => {
  const url = await databaseUrl()
  await (await open({ url, name: 'old' })).close()
  // As after a kill. The first sweep has ended when the name is marked.
  await sql(url, 'update holdfast.instance_name set gone_at = null')
  const read = () =>
    sql<{ name: string; is_gone: boolean }>(
      url,
      'select name, gone_at is not null as is_gone from holdfast.instance_name order by name',
    )
  // Opening an instance starts a sweep.
  await open({ url, name: 'second' })
  await until('a sweep marks the name', async () => (await read())[0]!.is_gone)
  await sql(url, "update holdfast.instance_name set gone_at = now() - interval '31 days'")
  const third = await open({ url, name: 'third', jobs: { retain: '60d' } })
  await third.close()
  expect((await read()).map(({ name }) => name)).toEqual(['old', 'second', 'third'])
  await open({ url, name: 'fourth' })
  await until('a sweep deletes the name', async () => (await read()).length === 3)
  // An instance that is still open keeps its name, even if the row is marked.
  expect((await read()).map(({ name }) => name)).toEqual(['fourth', 'second', 'third'])
})
