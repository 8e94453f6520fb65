import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defineJob, Holdfast } from '../../src/index.js'
import { gate } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlSession, until, untilRegistered, within } from '../setup/facts.js'
import { run, start } from './program.js'
import { fits } from './schemas.js'

let database: FreshDatabase
let directory: string
let env: NodeJS.ProcessEnv
let holder: Holdfast
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
  holder = await Holdfast.open({ url: database.url })
  directory = mkdtempSync(join(tmpdir(), 'holdfast-drain-'))
  const library = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
  writeFileSync(
    join(directory, 'jobs.mjs'),
    `import { defineJob } from '${library}'
     import { existsSync } from 'node:fs'
     import { setTimeout as sleep } from 'node:timers/promises'
     export default defineJob('slow', { run: async (until) => { while (!existsSync(until)) await sleep(20); return 'done' } })`,
  )
})
afterAll(async () => {
  await holder.close()
  rmSync(directory, { recursive: true })
  await database.drop()
})

async function json(args: readonly string[]) {
  const { status, stdout, stderr } = await run([...args, '--json'], env)
  expect({ status, stderr }).toMatchObject({ status: 0 })
  return JSON.parse(stdout)
}

test('instance show prints what the instance holds and runs', { timeout: 60_000 }, async () => {
  const ends = gate()
  const lock = await holder.locks.acquire('held')
  const lease = await holder.leases.acquire('leased')
  const delivery = holder.once.run('key', () => ends.opened)
  const permit = await holder.limits.acquire('export', { max: 3, weight: 2 })
  const campaign = holder.elections.campaign('indexer', () => ends.opened)
  const schedule = holder.schedules.add('invoices', { every: '7d' }, () => ends.opened)
  await until('the schedule accepts a run', async () => await holder.schedules.run('invoices').catch(() => null))
  await until('the delivery runs', async () => (await sql(database.url, 'select from holdfast.delivery')).length === 1)
  await until('the instance leads', async () => (await holder.elections.leader('indexer')) !== null)
  await untilRegistered(database.url, 'election/indexer', 'held', 'leased')
  await until(
    'a tick runs',
    async () => (await sql(database.url, "select from holdfast.tick where state = 'running'")).length === 1,
  )
  const [shown, printed, listed] = await Promise.all([
    json(['instance', 'show', holder.id]),
    run(['instance', 'show', holder.id], env),
    json(['instance', 'ls']),
  ])
  expect(fits('instance-show', shown)).toMatchObject({
    id: holder.id,
    state: 'open',
    node: process.versions.node,
    holds: [{ label: 'election/indexer' }, { label: 'held' }],
    leases: [{ label: 'leased' }],
    deliveries: [{ key: 'key' }],
    permits: [{ name: 'export', weight: 2, granted: true }],
    leads: [{ name: 'indexer' }],
    runs: [{ name: 'invoices', extra: true }],
    jobs: [],
  })
  expect(printed.stdout).toContain(`process\t${process.pid} on `)
  for (const fact of [
    'holds\t2 permits of export',
    'leads\tindexer',
    'runs\tinvoices, its tick \\S+Z',
    'runs\tdelivery key',
  ]) {
    expect(printed.stdout).toMatch(new RegExp(`^${fact}, for `, 'm'))
  }
  expect(fits('instance-ls', listed)).toMatchObject([{ id: holder.id, alive: true, state: 'open' }])
  ends.open()
  await Promise.all([delivery, lock.release(), lease.release(), permit.release(), campaign.close(), schedule.close()])
})

test('instance drain lets holdfast work finish its job and exit with 0, and another worker runs the next job', {
  timeout: 60_000,
}, async () => {
  const slow = defineJob('slow', { run: (_: string) => 'elsewhere' })
  const working = start(['work', join(directory, 'jobs.mjs'), '--concurrency', '1'], env)
  const first = await holder.jobs.enqueue(slow, join(directory, 'end'))
  await until('the first job runs', async () => (await holder.jobs.find(first.id))?.state === 'running', 30_000)
  const { instance } = (await holder.jobs.find(first.id))!
  const next = await holder.jobs.enqueue(slow, join(directory, 'end'))
  const [busy, idle] = await Promise.all([instance!, holder.id].map((id) => json(['instance', 'show', id])))
  expect(busy.jobs).toMatchObject([{ id: first.id, kind: 'slow' }])
  expect(idle.jobs).toEqual([])

  const draining = start(['instance', 'drain', instance!, '--wait', '--within', '1m', '--json'], env)
  draining.process.stdin!.end()
  await until(
    'the instance drains',
    async () => {
      const [row] = await sql<{ state: string }>(database.url, 'select state from holdfast.instance where id = $1', [
        instance,
      ])
      return row?.state === 'draining'
    },
    30_000,
  )
  expect(working.process.exitCode).toBeNull()
  writeFileSync(join(directory, 'end'), '')
  const [worked, drained] = await Promise.all([working.ended, draining.ended])
  expect(worked).toMatchObject({ status: 0, stderr: expect.stringContaining('drain requested') })
  expect(drained).toMatchObject({ status: 0, stderr: expect.stringContaining('The instance is drained.\n') })
  expect(fits('instance-drain', JSON.parse(drained.stdout))).toMatchObject({ instance, state: 'drained' })
  expect(await holder.jobs.find(first.id)).toMatchObject({ state: 'done', result: 'done', failed: 0 })
  expect((await holder.jobs.find(next.id))!.state).toBe('ready')
  const worker = holder.jobs.work([slow])
  await until('another worker runs the next job', async () => (await holder.jobs.find(next.id))?.result === 'elsewhere')
  await worker.close()
})

test('instance drain reports that an instance is drained, lost or unknown', { timeout: 60_000 }, async () => {
  const other = await Holdfast.open({ url: database.url })
  const dead = await Holdfast.open({ url: database.url, expiry: '2s' })
  await dead.close()
  await sql(
    database.url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation, backend_pid)
     select 'dead', 'dead', 'default', -7, 'far', 1, '0.0.1', 2000, 'none', generation, 1 from holdfast.server_generation`,
  )
  expect(await other.drain()).toBe(true)
  // An instance whose session proves that it is alive until the session ends. It does not receive the drain request.
  const session = await sqlSession(database.url)
  await session.query('select pg_advisory_lock(holdfast.session_class(), -8)')
  await sql(
    database.url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation, backend_pid)
     select 'mortal', 'mortal', namespace, -8, host, os_pid, version, 500, pooler, generation, 1 from holdfast.instance where id = $1`,
    [other.id],
  )
  const waiting = run(['instance', 'drain', 'mortal', '--wait', '--json'], env)
  await until(
    'the drain is requested',
    async () =>
      (await sql(database.url, "select from holdfast.instance where id = 'mortal' and state = 'drain-requested'"))
        .length,
  )
  await session.end()
  const died = await waiting
  expect(died).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('The instance is lost: its process ended before the instance was drained.'),
  })
  expect(fits('instance-drain', JSON.parse(died.stdout))).toEqual({ instance: 'mortal', name: 'mortal', state: 'lost' })
  const [again, gone, none, listed] = await Promise.all([
    run(['instance', 'drain', other.id, '--wait'], env),
    run(['instance', 'drain', 'dead', '--json'], env),
    run(['instance', 'drain', 'never'], env),
    run(['instance', 'ls'], env),
  ])
  const [tooLong, halfAMillisecond] = await Promise.all([
    run(['instance', 'drain', other.id, '--within', '30d'], env),
    run(['instance', 'drain', other.id, '--within', '0.5ms'], env),
  ])
  expect(tooLong).toMatchObject({ status: 2, stderr: expect.stringContaining('at most 24d') })
  expect(halfAMillisecond).toMatchObject({ status: 0, stderr: expect.stringContaining('is already drained.') })
  expect(again).toMatchObject({
    status: 0,
    stderr: expect.stringContaining('is already drained.\nThe instance is drained.\n'),
  })
  expect(gone.status).toBe(3)
  expect(fits('instance-drain', JSON.parse(gone.stdout))).toEqual({ instance: 'dead', name: 'dead', state: 'lost' })
  expect(none).toMatchObject({ status: 3, stderr: expect.stringContaining('There is no instance "never"') })
  expect(listed.stdout).toContain(`${other.name}\tdrained\t`)
  expect(listed.stdout).toContain('dead\tlost\t')
  // A dead instance of another version causes no warning.
  expect(listed.stderr).toBe('')
  await other.close()
})

test('instance drain --wait reports an instance that is killed and whose row another process deletes meanwhile', {
  timeout: 60_000,
}, async () => {
  const session = await sqlSession(database.url)
  await session.query('select pg_advisory_lock(holdfast.session_class(), -9)')
  await sql(
    database.url,
    `insert into holdfast.instance (id, name, namespace, session, host, os_pid, version, expiry_ms, pooler, generation, backend_pid)
     select 'killed', 'killed', 'default', -9, 'far', 1, '0.0.1', 60000, 'none', generation, 1 from holdfast.server_generation`,
  )
  const waiting = run(['instance', 'drain', 'killed', '--wait'], env)
  const drainRequested = "select from holdfast.instance where id = 'killed' and state = 'drain-requested'"
  await until('the drain is requested', async () => (await sql(database.url, drainRequested)).length)
  await session.query('select pg_advisory_unlock_all()')
  const [killed] = await sql<{ at: Date }>(database.url, 'select clock_timestamp() as at')
  // The first query may have begun before the end. After three, the command has seen the instance without its session.
  const queries = new Set<string>()
  await until('the command has queried the instance after its end', async () => {
    const finishedQueries = `select query_start::text from pg_stat_activity
      where datname = current_database() and application_name = 'holdfast command line'
        and query_start > $1 and state = 'idle'`
    const rows = await sql<{ query_start: string }>(database.url, finishedQueries, [killed!.at])
    for (const { query_start } of rows) queries.add(query_start)
    return queries.size >= 3
  })
  await sql(database.url, "delete from holdfast.instance where id = 'killed'")
  expect(await waiting).toMatchObject({
    status: 1,
    stderr: expect.stringContaining('The instance is lost: its process ended before the instance was drained.'),
  })
})

test('instance show and drain accept a name, and list the candidates if several instances match', async () => {
  const billing = await Holdfast.open({ url: database.url, namespace: 'billing', name: 'worker-3' })
  const mail = await Holdfast.open({ url: database.url, namespace: 'mail', name: 'worker-3' })
  const { status, stderr } = await run(['instance', 'show', 'worker-3'], env)
  expect(status).toBe(2)
  expect(stderr).toContain('2 instances match "worker-3": ')
  expect(stderr).toContain(`${billing.id} (worker-3 in namespace billing)`)
  expect(stderr).toContain(`${mail.id} (worker-3 in namespace mail)`)
  expect(stderr).toContain('--namespace')
  expect(await json(['instance', 'show', 'worker-3', '--namespace', 'mail'])).toMatchObject({
    id: mail.id,
    name: 'worker-3',
  })
  await mail.close()
  const drained = await run(['instance', 'drain', 'worker-3'], env)
  expect(drained).toMatchObject({ status: 0, stderr: 'Asked worker-3 to drain.\n' })
  await within(5_000, 'Draining', billing.drained)
  await billing.close()
  for (const verb of ['show', 'drain']) {
    const mistyped = await run(['instance', verb, holder.name.slice(0, -1)], env)
    expect(mistyped).toMatchObject({ status: 3, stderr: expect.stringContaining(`Did you mean "${holder.name}"?`) })
  }
  const unknown = await run(['instance', 'show', 'worker-3'], env)
  expect(unknown.status).toBe(3)
  expect(unknown.stderr).toContain('There is no instance "worker-3".')
})
