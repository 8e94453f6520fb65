// Tests a dashboard with several databases: each has its own data, rights, audit log and failures.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { act, board, serve, watch } from './fixture.js'

let eu: FreshDatabase
let us: FreshDatabase
beforeAll(async () => {
  ;[eu, us] = await Promise.all([freshDatabase(), freshDatabase()])
})
afterAll(() => Promise.all([eu.drop(), us.drop()]))

const nowhere = 'postgres://app:s3cret@127.0.0.1:1/app'
const job = defineJob('send', { queue: 'mail', run: () => {} })

interface Body {
  readonly error?: { readonly code: string }
  readonly data: { readonly queues: unknown; readonly rows: readonly unknown[] }
  readonly statements: readonly unknown[]
  readonly rights: readonly string[]
}

async function read(base: string, path: string) {
  const response = await fetch(`${base}/api/${path}`)
  return { status: response.status, body: (await response.json()) as Body }
}

test('each database has its own data, acts and audit log, and one that is down delays no other', async () => {
  const holdfast = await open({ url: us.url })
  await holdfast.jobs.enqueue(job)
  const databases = { eu: { url: eu.url }, us: { url: us.url }, ap: { url: nowhere } }
  const base = await serve(board({ databases }))

  expect((await read(base, 'me')).body).toMatchObject({
    databases: ['eu', 'us', 'ap'],
    databaseName: 'eu',
    error: null,
  })
  expect((await read(base, 'me?database=us')).body).toMatchObject({ databaseName: 'us', namespaces: ['default'] })
  expect((await read(base, 'me?database=ap')).body).toMatchObject({ error: { code: 'DATABASE_UNREACHABLE' } })

  const paused = await act(base, 'us:pause-queue', { params: { namespace: 'default', name: 'mail' } })
  expect(paused.status).toBe(200)
  const queues = async (name: string) => (await read(base, `view/${name}:overview`)).body.data.queues
  expect(await queues('us')).toMatchObject([{ name: 'mail', ready: 1, pausedMs: expect.any(Number) }])
  expect(await queues('eu')).toEqual([])
  const acts = async (name: string) => (await read(base, `view/${name}:audit`)).body.data.rows.length
  expect([await acts('eu'), await acts('us')]).toEqual([0, 1])
  expect((await read(base, 'sql/us:audit')).body.statements).toHaveLength(1)

  const { heard } = await watch(base, 'eu:overview', 'ap:overview', 'us:jobs?search=state:ready')
  const of = (view: string) => heard.find(({ data }) => data.view === view)
  await until('each database has responded', () =>
    ['eu:overview', 'ap:overview', 'us:jobs?search=state:ready'].every(of),
  )
  expect(of('eu:overview')).toMatchObject({ event: 'view', data: { data: { queues: [] } } })
  expect(of('us:jobs?search=state:ready')).toMatchObject({
    event: 'view',
    data: { data: { rows: [{ kind: 'send' }] } },
  })
  const failure = of('ap:overview')
  expect(failure).toMatchObject({ event: 'failure', data: { error: { code: 'DATABASE_UNREACHABLE' } } })
  expect(JSON.stringify(failure)).not.toContain('s3cret')
})

test('auth decides for each database, and a request must name a database', async () => {
  const asked: (string | undefined)[] = []
  const made = board({
    databases: { eu: { url: eu.url }, us: { url: us.url }, ap: { url: nowhere } },
    auth: (_request, _incoming, database) => {
      asked.push(database)
      if (database === 'eu') return null
      return { name: 'ada', rights: database === 'us' ? 'all' : 'read' }
    },
  })
  const base = await serve(made)
  const me = async (query: string) => (await read(base, `me${query}`)).body
  expect(await me('')).toMatchObject({ databases: ['us', 'ap'], databaseName: 'us' })
  expect(asked).toEqual(['eu', 'us', 'ap'])
  expect((await me('?database=us')).rights).toContain('pause-queue')
  expect((await me('?database=ap')).rights).toEqual([])
  expect(await me('?database=eu')).toMatchObject({ error: { code: 'NOT_FOUND' } })
  expect((await fetch(base)).status).toBe(200)

  const codeOf = async (path: string) => {
    const { status, body } = await read(base, path)
    return `${status} ${body.error?.code}`
  }
  expect(await codeOf('view/eu:overview')).toBe('403 FORBIDDEN')
  expect(await codeOf('sql/eu:audit')).toBe('403 FORBIDDEN')
  expect(await codeOf('live?view=us:audit&view=eu:audit')).toBe('403 FORBIDDEN')
  expect(await codeOf('view/none:audit')).toBe('404 NOT_FOUND')
  expect(await codeOf('view/audit')).toBe('400 USAGE')
  expect(await codeOf('live?view=audit')).toBe('400 USAGE')
  const params = { namespace: 'default', name: 'mail' }
  for (const [name, status] of [
    ['eu:pause-queue', 403],
    ['ap:pause-queue', 403],
    ['pause-queue', 400],
    ['us:pause-queue', 200],
  ] as const) {
    expect([name, (await act(base, name, { params, preview: true })).status]).toEqual([name, status])
  }
})

test('a dashboard with one database has no names', async () => {
  const base = await serve(board({ url: eu.url }))
  expect((await read(base, 'me')).body).toMatchObject({ databases: [], databaseName: null })
  expect((await read(base, 'view/eu:audit')).status).toBe(404)
})
