// Tests the functions of the schema: when they are applied again, by which version, and with which settings.
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { SchemaVersionError } from '../../src/index.js'
import {
  checkSchema,
  type Database,
  functionsRevision,
  inSchema,
  migrate,
  openPgPool,
  plannedFunctions,
  roomFunctions,
  schemaState,
} from '../../src/postgres/index.js'
import { catalogOf } from '../setup/catalog.js'
import { caught, sql } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl, open } from '../setup/instances.js'

const source = fileURLToPath(new URL('../../src/', import.meta.url))
const rooms = roomFunctions('holdfast').map(({ room }) => room)
const texts = new Map(
  readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(sql|ts)$/.test(file))
    .map((file) => [file, readFileSync(source + file, 'utf8')]),
)
const textOf = (room: string) => texts.get(`${room}/functions.sql`)!

function databaseAt(url: string): Database {
  const database = openPgPool({ connectionString: url })
  onTestFinished(() => database.close())
  return database
}

const applied = (url: string) =>
  sql<{ room: string; hash: string; revision: number }>(
    url,
    'select room, hash, revision from holdfast.applied_functions order by room',
  )

/**
 * Replaces the functions of the room with those of another version: with another text, recorded with its hash and revision.
 */
async function applyOtherVersion(url: string, room: string, revision: number) {
  await sql(
    url,
    `create or replace function holdfast.pair_key(class integer, object integer) returns bigint
       language sql immutable strict parallel safe as 'select 1::bigint';
     update holdfast.applied_functions set revision = ${revision};
     update holdfast.applied_functions set hash = 'another' where room = '${room}'`,
  )
}

const pairKey = async (url: string) =>
  (await sql<{ key: string }>(url, 'select holdfast.pair_key(0, 7) as key'))[0]!.key

/** The catalog without the partitions of days, which an instance adds also at midnight, while a test runs. */
const withoutDays = async (url: string) => (await catalogOf(url, 'holdfast')).filter((line) => !/_\d{8}\b/.test(line))

describe('functions in the database', () => {
  test('functions are recorded with the hash of their text, and are not applied again', async () => {
    const url = await emptyDatabaseUrl()
    const database = databaseAt(url)
    expect((await migrate(database, 'holdfast')).functions.map(({ room }) => room)).toEqual(rooms)
    const recorded = await applied(url)
    expect(recorded).toEqual(
      roomFunctions('holdfast')
        .map(({ room, hash }) => ({ room, hash, revision: functionsRevision }))
        .sort((a, b) => (a.room < b.room ? -1 : 1)),
    )
    expect(await migrate(database, 'holdfast')).toEqual({ migrations: [], functions: [] })
  })

  test('functions have the same hash in every schema', () => {
    expect(roomFunctions('other').map(({ hash }) => hash)).toEqual(roomFunctions('holdfast').map(({ hash }) => hash))
  })

  test.each([functionsRevision, functionsRevision - 1])(
    'functions are replaced if their text differs and their revision is %i',
    async (revision) => {
      const url = await databaseUrl()
      const before = await withoutDays(url)
      await applyOtherVersion(url, 'postgres', revision)
      const error = await caught(SchemaVersionError, open({ url, migrate: false }))
      expect(error).toMatchObject({ code: 'SCHEMA_OUTDATED', found: 1, expected: 1 })
      expect(error.message).toContain('The functions in the schema "holdfast" have revision')
      expect((await migrate(databaseAt(url), 'holdfast')).functions.map(({ room }) => room)).toEqual(['postgres'])
      expect(await pairKey(url)).toBe('7')
      expect(await withoutDays(url)).toEqual(before)
      expect(new Set((await applied(url)).map((row) => row.revision))).toEqual(new Set([functionsRevision]))
    },
  )

  test('functions of a higher revision are left alone, and this version works with them', async () => {
    const url = await databaseUrl()
    await applyOtherVersion(url, 'postgres', functionsRevision + 1)
    const before = await applied(url)
    const instance = await open({ url })
    await instance.locks.with('name', () => {})
    expect(await pairKey(url)).toBe('1')
    expect(await applied(url)).toEqual(before)
  })

  test('functions get the revision of this version, even if no text differs', async () => {
    const url = await databaseUrl()
    await sql(url, 'update holdfast.applied_functions set revision = revision - 1')
    await open({ url })
    expect(new Set((await applied(url)).map(({ revision }) => revision))).toEqual(new Set([functionsRevision]))
  })

  test('functions are replaced once by many instances that open at the same time, and rights and partitions are kept', async () => {
    const url = await databaseUrl()
    await sql(
      url,
      `create table holdfast.job_stopped_20200101 (like holdfast.job_stopped including defaults);
      alter table holdfast.job_stopped attach partition holdfast.job_stopped_20200101 for values from ('2020-01-01Z') to ('2020-01-02Z')`,
    )
    await applyOtherVersion(url, 'postgres', functionsRevision)
    const counts = await Promise.all(
      Array.from({ length: 8 }, async () => (await migrate(databaseAt(url), 'holdfast')).functions.length),
    )
    expect(counts.filter((count) => count > 0)).toEqual([1])
    expect(await sql(url, "select to_regclass('holdfast.job_stopped_20200101') is not null as kept")).toEqual([
      { kept: true },
    ])
    const may = "select has_function_privilege('public', 'holdfast.job_roll_partitions(integer)', 'execute') as it"
    expect(await sql(url, may)).toEqual([{ it: false }])
  })

  test('functions that are pending count as an outdated schema', async () => {
    const url = await databaseUrl()
    await applyOtherVersion(url, 'limits', functionsRevision - 1)
    const state = await schemaState(databaseAt(url), 'holdfast')
    expect(state).toMatchObject({ version: 1, pending: [], revision: functionsRevision - 1 })
    expect(state.pendingFunctions.map(({ room }) => room)).toEqual(['limits'])
    expect(() => checkSchema(state, 'holdfast')).toThrow(SchemaVersionError)
  })
})

describe('the text of functions', () => {
  test('the text of functions and views is in functions.sql with "create or replace", and tables are in schema.sql', () => {
    for (const [file, text] of texts) {
      if (!file.endsWith('.sql') || file.startsWith('cli/')) continue
      if (file.endsWith('/functions.sql')) {
        expect(text, file).not.toMatch(/^(create (?!or replace (function|view))|alter|insert|drop)/m)
      } else expect(text, file).not.toMatch(/^create (or replace )?(function|view)/m)
    }
  })

  test('the name of a function is unique in the schema, so that "alter function" finds it by its name alone', () => {
    const names = rooms.flatMap((room) =>
      [...textOf(room).matchAll(/^create or replace function holdfast\.(\w+)\(/gm)].map(([, name]) => name!),
    )
    expect(names).toEqual([...new Set(names)])
    expect(plannedFunctions).toEqual([...new Set(plannedFunctions)])
    expect(plannedFunctions.filter((name) => !names.includes(name))).toEqual([])
  })

  test('the text of functions defines <module>_largest_numbers() once in each module', () => {
    for (const room of rooms) {
      const names = [...textOf(room).matchAll(/^create or replace function holdfast\.(\w+_largest_numbers)\(/gm)]
      expect(names.map(([, name]) => name)).toEqual([`${room}_largest_numbers`])
    }
  })

  test('the text of functions has no planner settings outside planner-settings.ts', () => {
    for (const room of rooms) {
      expect(textOf(room), room).not.toMatch(/^\s*set (jit|enable_\w+|plan_cache_mode|\w+_cost|\w+_collapse_limit)\b/m)
    }
  })

  test('the text of functions names every class of advisory locks, and only classes that lock_class() knows', () => {
    const known = new Set(
      [...textOf('postgres').matchAll(/when purpose operator\(pg_catalog\.=\) '([^']+)'/g)].map(
        ([, purpose]) => purpose,
      ),
    )
    expect(known.size).toBeGreaterThan(8)
    const used = new Set<string>()
    for (const [file, text] of texts) {
      for (const [, purpose] of text.matchAll(/lock_class\('+([^']*)'/g)) {
        used.add(purpose!)
        expect(known, file).toContain(purpose)
      }
      if (file !== 'postgres/functions.sql') expect(text, file).not.toMatch(/session_class\(\) (#|operator)/)
    }
    expect(used).toEqual(known)
  })

  test('each class of advisory locks has its own number', async () => {
    const url = await databaseUrl()
    const purposes = [...textOf('postgres').matchAll(/pg_catalog\.=\) '([^']+)' then/g)].map(([, purpose]) => purpose!)
    const rows = await sql<{ class: number }>(
      url,
      'select holdfast.lock_class(purpose) as class from unnest($1::text[]) as purpose union all select holdfast.session_class()',
      [purposes],
    )
    expect(new Set(rows.map((row) => row.class)).size).toBe(purposes.length + 1)
    // lock_class() is a constant when the statement is planned, so it costs nothing when the statement runs.
    const plan = await sql<{ 'QUERY PLAN': string }>(
      url,
      "explain (verbose, costs off) select holdfast.lock_class('queue')",
    )
    expect(plan[0]!['QUERY PLAN']).toBe('Result')
    expect(plan[1]!['QUERY PLAN']).toMatch(/^ {2}Output: '?-?\d+'?(::integer)?$/)
  })
})

test('the SQL of another schema names this schema only', () => {
  for (const { sql: text, room } of roomFunctions('else')) {
    expect(text.replaceAll(/--.*$|comment on .*?;$/gms, ''), room).not.toMatch(/\bholdfast\.[a-z_]/)
    expect(text).toBe(inSchema(roomFunctions('holdfast').find((one) => one.room === room)!.sql, 'else'))
  }
})
