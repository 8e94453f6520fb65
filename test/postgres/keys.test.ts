import { afterAll, beforeAll, expect, test } from 'vitest'
import { hashedKey, numberedKey, pairKey } from '../../src/base/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { randomFrom, randomName, seed } from '../setup/random.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const start = seed()

test(`SQL and TypeScript make the same keys of names (seed ${start})`, async () => {
  const random = randomFrom(start)
  const names = Array.from({ length: 500 }, () => [randomName(random), randomName(random)] as const)
  names.push(['', 'a'], ['billing', 'nightly-report'], ['a', 'x'.repeat(500)])
  const rows = await sql<{ key: string }>(
    database.url,
    'select holdfast.lock_key(namespace, name) as key from unnest($1::text[], $2::text[]) with ordinality as n (namespace, name, place) order by place',
    [names.map(([namespace]) => namespace), names.map(([, name]) => name)],
  )
  expect(rows.map(({ key }) => key)).toEqual(names.map(([namespace, name]) => hashedKey(namespace, name).key))
})

test(`SQL and TypeScript make the same keys of pairs, with negative numbers and the extremes (seed ${start})`, async () => {
  const random = randomFrom(start)
  const edge = [0, 1, -1, 2 ** 31 - 1, -(2 ** 31)]
  const pairs = edge.flatMap((one) => edge.map((other) => [one, other] as const))
  for (let i = 0; i < 500; i++) pairs.push([Math.floor(random() * 2 ** 32) | 0, Math.floor(random() * 2 ** 32) | 0])
  const rows = await sql<{ key: string }>(
    database.url,
    'select holdfast.pair_key(class, object) as key from unnest($1::integer[], $2::integer[]) with ordinality as n (class, object, place) order by place',
    [pairs.map(([one]) => one), pairs.map(([, other]) => other)],
  )
  expect(rows.map(({ key }) => key)).toEqual(pairs.map(([one, other]) => pairKey(one, other).key))
})

test('a pair appears in pg_locks as its two numbers', async () => {
  const { locks } = await open({ url: database.url })
  await using _lock = await locks.acquire(locks.pair(7, -42))
  const rows = await sql(
    database.url,
    `select classid::bigint::text as class, objid::bigint::text as object from pg_locks
     where locktype = 'advisory' and objsubid = 1 and database = (select oid from pg_database where datname = current_database())`,
  )
  expect(rows).toEqual([{ class: '7', object: String(2 ** 32 - 42) }])
})

test('SQL and TypeScript make the same keys of the numbers of a key space', async () => {
  const { locks } = await open({ url: database.url, namespace: 'app' })
  const space = await locks.space('steps')
  const [row] = await sql<{ base: string; three: string; last: string; beyond: null; other: null }>(
    database.url,
    `select base, holdfast.space_key('app', 'steps', 3) as three, holdfast.space_key('app', 'steps', 1048575) as last,
       holdfast.space_key('app', 'steps', 1048576) as beyond, holdfast.space_key('other', 'steps', 3) as other
     from holdfast.key_space where space = 'steps'`,
  )
  expect(space.at(3)).toEqual(numberedKey('app', 'steps', row!.base, 3))
  expect(row).toMatchObject({ three: space.at(3).key, last: space.at(1_048_575).key, beyond: null, other: null })
})

test.each([
  ['null, $1', "Expected a namespace and a name, got null and 'x'"],
  ['$1, null', "Expected a namespace and a name, got 'x' and null"],
])('lock_key(%s) throws, because pg_advisory_lock(null) would lock nothing', async (given, message) => {
  await expect(sql(database.url, `select pg_advisory_lock(holdfast.lock_key(${given}))`, ['x'])).rejects.toThrow(
    message,
  )
})
