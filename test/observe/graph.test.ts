import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { type Blocker, buildGraph, type ObservedLock, Observer } from '../../src/observe/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { freshDatabase } from '../setup/database.js'

let nextPid = 100

function holds(instance: string, label: string, pid = nextPid++): ObservedLock {
  return observed({ instance, label, pid, granted: true })
}

function waits(instance: string, label: string, blockedBy: readonly ObservedLock[]): ObservedLock {
  return observed({ instance, label, pid: nextPid++, blockedBy: blockedBy.map(({ pid }) => pid!) })
}

function observed(facts: Partial<ObservedLock>): ObservedLock {
  return {
    key: facts.label!,
    namespace: 'default',
    label: null,
    mode: 'exclusive',
    granted: false,
    pid: null,
    session: null,
    instance: null,
    host: null,
    osPid: null,
    application: null,
    user: null,
    clientAddress: null,
    since: null,
    forMs: null,
    fence: null,
    requests: 1,
    blockedBy: [],
    ...facts,
  }
}

/** `a[x: b[y: c], d]`; an ellipsis where it stands elsewhere in full. */
function sketch({ participant, repeated, blocked }: Blocker): string {
  const names = blocked.map(({ label, waiters }) => `${label}: ${waiters.map(sketch).join(', ')}`)
  return `${participant.id}${repeated ? '…' : ''}${names.length > 0 ? `[${names.join('; ')}]` : ''}`
}

const treesOf = (locks: ObservedLock[]) => buildGraph(locks).roots.map(sketch)

describe('the trees', () => {
  test('begin with who waits for nobody, and go on through what a waiter holds', () => {
    const [ax, by] = [holds('a', 'x'), holds('b', 'y')]
    const locks = [by, waits('c', 'y', [by]), ax, waits('b', 'x', [ax]), waits('d', 'x', [ax])]
    expect(treesOf(locks)).toEqual(['a[x: b[y: c], d]'])
  })

  test('leave out who neither waits nor is waited for', () => {
    const ax = holds('a', 'x')
    expect(buildGraph([ax, holds('b', 'y')])).toEqual({ participants: [], edges: [], roots: [] })
  })

  test('show a waiter below each of several holders, and what it blocks only once', () => {
    const [a, b, c] = [holds('a', 'x'), holds('b', 'x'), holds('c', 'y')]
    const locks = [a, b, waits('c', 'x', [a, b]), c, waits('d', 'y', [c])]
    expect(treesOf(locks)).toEqual(['a[x: c[y: d]]', 'b[x: c…]'])
  })

  test('show a circle, beginning somewhere', () => {
    const [ax, by] = [holds('a', 'x'), holds('b', 'y')]
    expect(treesOf([ax, waits('b', 'x', [ax]), by, waits('a', 'y', [by])])).toEqual(['a[x: b[y: a…]]'])
  })

  test('show an instance that waits for itself', () => {
    const ax = holds('a', 'x')
    const inside = observed({ instance: 'a', label: 'x', blockedBy: [ax.pid!] })
    expect(treesOf([ax, inside])).toEqual(['a[x: a…]'])
  })

  test('name who stands before in the queue only where no holder is in the way', () => {
    const reader = { ...holds('reader', 'x'), mode: 'shared' as const }
    const writer = waits('writer', 'x', [reader])
    const late = { ...waits('late', 'x', [writer]), mode: 'shared' as const }
    const second = waits('second', 'x', [reader, writer])
    expect(treesOf([reader, writer, late, second])).toEqual(['reader[x: writer[x: late], second]'])
  })
})

test('PostgreSQL tells of the queue as the trees assume', async () => {
  const fresh = await freshDatabase()
  const database = openPgPool({ connectionString: fresh.url })
  const observer = new Observer(database)
  const clients = [0, 1, 2].map(() => new pg.Client({ connectionString: fresh.url }))
  for (const client of clients) {
    client.on('error', () => {})
    await client.connect()
  }
  const pids = await Promise.all(
    clients.map(async (client) => (await client.query('select pg_backend_pid() as pid')).rows[0].pid as number),
  )
  const [reader, writer, late] = clients as [pg.Client, pg.Client, pg.Client]
  const waiters = async () => (await observer.locks()).filter(({ granted }) => !granted).length
  await reader.query('select pg_advisory_lock_shared(1)')
  writer.query('select pg_advisory_lock(1)').catch(() => {})
  await expect.poll(waiters, { timeout: 20_000 }).toBe(1)
  late.query('select pg_advisory_lock_shared(1)').catch(() => {})
  await expect.poll(waiters, { timeout: 20_000 }).toBe(2)
  const { edges } = await observer.graph()
  expect(edges).toMatchObject([
    { waiter: `session ${pids[1]}`, blocker: `session ${pids[0]}`, blockerHolds: true, mode: 'exclusive', key: '1' },
    { waiter: `session ${pids[2]}`, blocker: `session ${pids[1]}`, blockerHolds: false, mode: 'shared' },
  ])
  await database.close()
  await fresh.drop()
})
