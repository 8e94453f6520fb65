// An instance records long holds in holdfast.hold, and deletes the records when they end.
import { expect, test } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

test('a long hold is recorded with its fence and age, and the record is deleted at the release', async () => {
  const url = await databaseUrl()
  const { locks } = await open({ url })
  const long = await locks.acquire('long', { mode: 'shared' })
  const records = () =>
    sql<{ age: number }>(
      url,
      `select hold.key, hold.mode, hold.fence::float8, extract(epoch from now() - since)::float8 as age, name.label
       from holdfast.hold join holdfast.name using (key)
       where session = (select session from holdfast.instance)`,
    )
  const recorded = await until('the hold is recorded', async () => (await records())[0])
  expect(recorded).toMatchObject({ key: long.keys[0], mode: 'shared', fence: long.fence, label: 'long' })
  expect(recorded.age).toBeGreaterThan(3)
  await locks.with('short', () => {})
  expect(await records()).toHaveLength(1)
  await long.release()
  await until('the record is deleted', async () => (await records()).length === 0)
})

test('an instance deletes its records when it closes', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  await instance.locks.acquire('until the end')
  const records = () => sql(url, 'select key from holdfast.hold')
  await until('the hold is recorded', async () => (await records()).length === 1)
  await instance.close()
  expect(await records()).toEqual([])
})

test('an idle instance runs no statements for records', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  await instance.locks.with('once', () => {})
  const statements = async () => {
    const [row] = await sql<{ calls: number }>(
      url,
      `select coalesce(sum(calls), 0)::int as calls from pg_stat_statements
       where dbid = (select oid from pg_database where datname = current_database())
         and query ~ 'holdfast\\.(hold|wait)'`,
    )
    return row!.calls
  }
  const before = await statements()
  // The heartbeat of the anchor shows that more than one second has passed, the interval of the recorder.
  const readHeartbeat = async () => {
    const [row] = await sql<{ calls: number }>(
      url,
      `select coalesce(sum(calls), 0)::int as calls from pg_stat_statements
       where dbid = (select oid from pg_database where datname = current_database()) and query like 'select pg_backend_pid(), holdfast.generation_began()%'`,
    )
    return row!.calls
  }
  const first = await readHeartbeat()
  await until('the anchor has sent a heartbeat', async () => (await readHeartbeat()) > first)
  expect(await statements()).toBe(before)
})
