// What lasts is written down, and struck out again.
import { expect, test } from 'vitest'
import { sql, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

test('a long hold is noted with its fence and age, and struck out when it is released', async () => {
  const url = await databaseUrl()
  const { locks } = await open({ url })
  const long = await locks.acquire('long', { mode: 'shared' })
  const notes = () =>
    sql<{ age: number }>(
      url,
      `select hold.key, hold.mode, hold.fence::float8, extract(epoch from now() - since)::float8 as age, name.label
       from holdfast.hold join holdfast.name using (key)
       where session = (select session from holdfast.instance)`,
    )
  const noted = await until('it is noted', async () => (await notes())[0])
  expect(noted).toMatchObject({ key: long.keys[0], mode: 'shared', fence: long.fence, label: 'long' })
  expect(noted.age).toBeGreaterThan(3)
  await locks.with('short', () => {})
  expect(await notes()).toHaveLength(1)
  await long.release()
  await until('it is struck out', async () => (await notes()).length === 0)
})

test('what an instance noted goes when it closes', async () => {
  const url = await databaseUrl()
  const instance = await open({ url })
  await instance.locks.acquire('until the end')
  const notes = () => sql(url, 'select key from holdfast.hold')
  await until('it is noted', async () => (await notes()).length === 1)
  await instance.close()
  expect(await notes()).toEqual([])
})

test('an instance that does nothing writes nothing', async () => {
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
  // A beat of the anchor marks that time has passed: longer than the notes' second.
  const readHeartbeat = async () => {
    const [row] = await sql<{ calls: number }>(
      url,
      `select coalesce(sum(calls), 0)::int as calls from pg_stat_statements
       where dbid = (select oid from pg_database where datname = current_database()) and query like 'select pg_backend_pid(), holdfast.generation_began()%'`,
    )
    return row!.calls
  }
  const first = await readHeartbeat()
  await until('the anchor has beaten', async () => (await readHeartbeat()) > first)
  expect(await statements()).toBe(before)
})
