import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { plannerStatements } from './planner-settings.js'
import { inSchema } from './statements.js'

/**
 * Modules with SQL for the schema, in the order in which their tables are created. A module has up to two files:
 *
 * - `schema.sql`: tables, sequences, indexes, and their comments. Together, these files are version 1 of the schema. After the first
 *   release, they never change, and only migrations/ changes tables.
 * - `functions.sql`: functions, each with `create or replace`. The functions are applied again whenever their text changes.
 */
const rooms = [
  { name: 'postgres', hasFunctions: true },
  { name: 'locks', hasFunctions: false },
  { name: 'leases', hasFunctions: true },
  { name: 'limits', hasFunctions: true },
  { name: 'once', hasFunctions: true },
  { name: 'elections', hasFunctions: true },
  { name: 'shares', hasFunctions: true },
  { name: 'jobs', hasFunctions: true },
  { name: 'schedules', hasFunctions: true },
  { name: 'samples', hasFunctions: true },
  { name: 'acts', hasFunctions: true },
] as const

/**
 * Revision of all modules' functions. Increase the revision by one in the first commit after a release that changes a
 * functions.sql or planner-settings.ts. An instance never replaces functions with a higher revision, so during a
 * rolling deployment old instances do not restore old functions.
 */
export const functionsRevision = 1

/** Runs whenever functions were applied, because the migrations before them may have created tables. */
const afterFunctions = 'select holdfast.guard_tables();'

/**
 * Runs once, after the first installation of the functions. No job can end while the partition for its day is being created, so the first
 * partitions are created now.
 */
const onInstall = 'select holdfast.job_roll_partitions(7);'

export interface RoomFunctions {
  readonly room: string
  /** Hash of the text for the `holdfast` schema. */
  readonly hash: string
  readonly sql: string
}

const texts = new Map<string, string>()

/** Reads a module's SQL file. Normalizes line endings, so that a checkout on Windows has the same hash. */
function read(room: string, file: 'schema' | 'functions'): string {
  const path = `../${room}/${file}.sql`
  const known = texts.get(path)
  if (known !== undefined) return known
  const text = readFileSync(new URL(path, import.meta.url), 'utf8')
    .replaceAll('\r\n', '\n')
    .trim()
  texts.set(path, text)
  return text
}

/** Returns version 1 of the schema, which consists of all modules' tables. */
export function baseline(schema: string): string {
  return inSchema(rooms.map(({ name }) => read(name, 'schema')).join('\n\n'), schema)
}

let hashed: RoomFunctions[] | undefined

/** Returns each module's functions, with their planner settings. */
export function roomFunctions(schema: string): RoomFunctions[] {
  hashed ??= rooms
    .filter(({ hasFunctions }) => hasFunctions)
    .map(({ name }) => {
      const text = read(name, 'functions')
      const names = [...text.matchAll(/^create or replace function holdfast\.(\w+)\(/gm)].map(([, name]) => name!)
      const settings = plannerStatements(new Set(names))
      const sql = settings.length > 0 ? `${text}\n\n-- See planner-settings.ts.\n${settings.join('\n')}` : text
      return { room: name, hash: createHash('sha256').update(sql).digest('hex'), sql }
    })
  return hashed.map((functions) => ({ ...functions, sql: inSchema(functions.sql, schema) }))
}

/**
 * Returns SQL that applies the given modules' functions and records the revision for all modules. Functions may call
 * functions from other modules, so PostgreSQL does not check their bodies.
 */
export function functionsScript(apply: readonly RoomFunctions[], schema: string, isInstall: boolean): string {
  const applied = new Set(apply.map(({ room }) => room))
  const records = roomFunctions(schema).map(({ room, hash }) => `('${room}', '${hash}', ${functionsRevision})`)
  return [
    `-- functions, revision ${functionsRevision}: ${[...applied].join(', ')}`,
    'set local check_function_bodies = off;',
    ...apply.map(({ sql }) => sql),
    inSchema(isInstall ? `${onInstall}\n${afterFunctions}` : afterFunctions, schema),
    inSchema(
      `insert into holdfast.applied_functions (room, hash, revision)
values
  ${records.join(',\n  ')}
on conflict (room) do update
set hash = excluded.hash,
    revision = excluded.revision,
    applied_at = excluded.applied_at;`,
      schema,
    ),
  ].join('\n\n')
}
