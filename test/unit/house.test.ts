// Checks the import rules of src/ and ui/, for values and types. A file imports from its own room, or through the index.ts ("door") of a room
// on a lower floor. Rooms on the same floor do not import each other. Files do not import each other in a circle. The browser loads no file
// that imports Node's modules or packages.
// The rule for SQL: a file names tables of its own room, of the rooms on its floor, and of rooms on lower floors.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

const floors: Record<string, number> = {
  base: 0,
  cron: 1,
  // The log of an instance: made of base alone.
  log: 1,
  postgres: 1,
  search: 1,
  locks: 2,
  leases: 2,
  observe: 2,
  samples: 2,
  // The context that an instance creates from its options.
  'instance-context.ts': 2,
  doctor: 3,
  // An embedded server: uses only base, and is used by the command line.
  embedded: 2,
  elections: 3,
  limits: 3,
  once: 3,
  shares: 3,
  schedules: 4,
  jobs: 4,
  // Wrappers for the handlers of web servers, which use once.
  http: 4,
  // The class that combines the rooms.
  'holdfast.ts': 5,
  // The entry of the package. The rooms above use the same interface as users.
  'index.ts': 6,
  // Operator actions, for the dashboard and the command line.
  acts: 7,
  demo: 7,
  // The module for NestJS, which only this room imports.
  nestjs: 7,
  telemetry: 7,
  testing: 7,
  dashboard: 8,
  cli: 9,
  // The plugin for Fastify, with the dashboard and the health checks.
  fastify: 9,
  // The front end of the dashboard, which runs in browsers.
  ui: 9,
}

/** Files that other rooms may import directly. The door of base loads Node's modules, which browsers do not have. */
const sideDoors = [
  'base/clock-skew.ts',
  'base/durations.ts',
  'base/job-progress.ts',
  'base/errors.ts',
  'base/job-states.ts',
  'base/suggest.ts',
  // This file contains only types.
  'dashboard/wire.ts',
]

/** Returns the paths of the files of a folder, relative to the folder and with the prefix. */
const filesOf = (folder: string, prefix: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => prefix + file)

const files = [...filesOf('src', ''), ...filesOf('ui', 'ui/')]
const known = new Set(files)
const roomOf = (file: string) => file.split('/')[0]!
const pathOf = (file: string) => (roomOf(file) === 'ui' ? file : `src/${file}`)
const textOf = (file: string) => readFileSync(join(root, pathOf(file)), 'utf8')

interface Import {
  from: string
  to: string
  /** Whether the compiler erases the import. All rules apply to it, but a browser does not load its target. */
  onlyTypes: boolean
}

const statement =
  /^(?:import|export)\s+(type\s+)?[^'"`;]*?from\s+'(\.[^']+)'|^import\s+'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm

function importsOf(file: string): Import[] {
  return [...textOf(file).matchAll(statement)]
    .map(([, type, ...targets]) => ({ target: targets.find((found) => found !== undefined)!, onlyTypes: !!type }))
    .filter(({ target }) => !target.endsWith('.css'))
    .map(({ target, onlyTypes }) => ({ from: file, to: resolved(file, target), onlyTypes }))
}

function resolved(file: string, target: string): string {
  const path = normalize(join(dirname(pathOf(file)), target))
    .replace(/^src\//, '')
    .replace(/\.js$/, '')
  return [`${path}.ts`, `${path}.tsx`].find((found) => known.has(found)) ?? path
}

const imports = files.flatMap(importsOf)

/** Returns the rule that an import breaks, or undefined. */
function fault(from: string, to: string): string | undefined {
  const [room, other] = [roomOf(from), roomOf(to)]
  if (room === other) return undefined
  const [floor, below] = [floors[room], floors[other]]
  if (floor === undefined || below === undefined) return 'a room without a floor'
  if (floor <= below) return 'not from a lower floor'
  if (to === other || to === `${other}/index.ts` || sideDoors.includes(to)) return undefined
  return 'not through the door'
}

/** Returns the import paths that end where they start. */
function circlesIn(edges: readonly { from: string; to: string }[]): string[] {
  const next = new Map<string, Set<string>>()
  for (const { from, to } of edges) next.set(from, (next.get(from) ?? new Set()).add(to))
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: string[]) => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (path.includes(file) || done.has(file)) return
    for (const to of next.get(file) ?? []) visit(to, [...path, file])
    done.add(file)
  }
  for (const file of next.keys()) visit(file, [])
  return circles
}

/** Returns the given files and all files that they import as values, directly or indirectly. */
function loadedWith(begin: readonly string[]): string[] {
  const loaded = new Set(begin)
  // A for loop over a set also visits the files that are added during the loop.
  for (const file of loaded) {
    for (const { from, to, onlyTypes } of imports) if (from === file && !onlyTypes) loaded.add(to)
  }
  return [...loaded]
}

test('importsOf finds the imports of the sources', () => {
  expect(files).toContain('holdfast.ts')
  expect(imports.length).toBeGreaterThan(1_000)
  expect(imports).toContainEqual({ from: 'holdfast.ts', to: 'locks/index.ts', onlyTypes: false })
  expect(imports).toContainEqual({ from: 'holdfast.ts', to: 'instance-context.ts', onlyTypes: false })
  expect(imports).toContainEqual({ from: 'locks/lock.ts', to: 'locks/hold.ts', onlyTypes: true })
  expect(imports).toContainEqual({ from: 'ui/wire.ts', to: 'dashboard/wire.ts', onlyTypes: true })
  expect(imports).toContainEqual({ from: 'ui/routes.ts', to: 'search/index.ts', onlyTypes: false })
})

test('every relative import has a source file as its target', () => {
  expect(imports.filter(({ to }) => !known.has(to))).toEqual([])
})

test('every room has a floor', () => {
  expect([...new Set(files.map(roomOf))].filter((room) => !(room in floors))).toEqual([])
})

test('every file imports from its own room or from the index.ts of a lower room', () => {
  const faults = imports.map(({ from, to }) => ({ from, to, fault: fault(from, to) })).filter((one) => one.fault)
  expect(faults.map(({ from, to, fault }) => `${from} imports ${to}: ${fault}`)).toEqual([])
})

test('fault accepts allowed imports and names the broken rule of others', () => {
  expect(fault('locks/lock.ts', 'postgres/index.ts')).toBeUndefined()
  expect(fault('cli/bin.ts', 'index.ts')).toBeUndefined()
  expect(fault('ui/wire.ts', 'dashboard/wire.ts')).toBeUndefined()
  expect(fault('ui/routes.ts', 'search/search.ts')).toBe('not through the door')
  expect(fault('locks/lock.ts', 'postgres/session.ts')).toBe('not through the door')
  expect(fault('locks/lock.ts', 'leases/index.ts')).toBe('not from a lower floor')
  expect(fault('postgres/session.ts', 'locks/index.ts')).toBe('not from a lower floor')
  expect(fault('embedded/server.ts', 'locks/index.ts')).toBe('not from a lower floor')
  expect(fault('dashboard/wire.ts', 'ui/live.ts')).toBe('not from a lower floor')
})

test('no file imports itself through other files, not even for types', () => {
  expect(circlesIn(imports)).toEqual([])
})

test('circlesIn finds a circle', () => {
  const edges = ['a b', 'b c', 'c b', 'c d'].map((edge) => ({ from: edge[0]!, to: edge[2]! }))
  expect(circlesIn(edges)).toEqual(['b → c → b'])
})

test('the files of src/ that the browser loads import neither Node modules nor packages', () => {
  const loaded = loadedWith(files.filter((file) => roomOf(file) === 'ui')).filter((file) => roomOf(file) !== 'ui')
  expect(loaded).toContain('search/job-search.ts')
  expect(loaded).toContain('base/errors.ts')
  const outside = /^(?:import|export)\s[^'"`;]*?from\s+'[^.']|^import\s+'[^.']|\bimport\('[^.']/m
  const impure = loaded.filter((file) => outside.test(textOf(file)))
  expect(impure).toEqual([])
})

describe('SQL', () => {
  const sqlFiles = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.sql'),
  )
  /** The SQL of a file, without comments. */
  const sqlOf = (file: string) =>
    readFileSync(join(root, 'src', file), 'utf8')
      .replace(/--.*$/gm, '')
      .replace(/^comment on .*?;$/gms, '')
  const namesIn = (sql: string, pattern: RegExp) => [...new Set([...sql.matchAll(pattern)].map(([, name]) => name!))]
  /** Maps each table, view and sequence to the room that creates it. */
  const owners = new Map(
    sqlFiles.flatMap((file) =>
      namesIn(
        sqlOf(file),
        /^create (?:or replace |unlogged )*(?:table|view|sequence) (?:if not exists )?holdfast\.(\w+)/gm,
      ).map((name): [string, string] => [name, roomOf(file)]),
    ),
  )
  /** Rooms that read the tables of all rooms, and change none of them. */
  const readers = ['observe', 'doctor']

  /** Names in SQL of a room that belong to a room on a higher floor. A name before a parenthesis is a function. */
  const namesFromAbove = (room: string, sql: string) =>
    namesIn(sql, /\bholdfast\.(\w+)(?!\w|\()/g).filter((name) => floors[owners.get(name) ?? room]! > floors[room]!)

  test('of a room names no table, view or sequence of a room on a higher floor', () => {
    const faults = sqlFiles
      .filter((file) => !readers.includes(roomOf(file)))
      .flatMap((file) =>
        namesFromAbove(roomOf(file), sqlOf(file)).map((name) => `${file} names ${name} of ${owners.get(name)}`),
      )
    expect(faults.sort()).toEqual([
      // advance_fence() moves this sequence ahead together with the fences, because the job ids that a failover or restore loses may be in
      // use outside the database.
      'postgres/functions.sql names job_number of jobs',
      // The sweep deletes the rows of dead epochs in one statement, so that it determines only once which epochs are present.
      'postgres/instance.sql names candidate of elections',
      'postgres/instance.sql names election of elections',
      'postgres/instance.sql names hold of locks',
      'postgres/instance.sql names share_member of shares',
    ])
  })

  test('of "observe" and "doctor" changes no table', () => {
    for (const file of sqlFiles.filter((file) => readers.includes(roomOf(file)))) {
      expect(sqlOf(file), file).not.toMatch(/\b(insert into|update|delete from|truncate) holdfast\./)
    }
  })

  test('is searched for all tables and names', () => {
    expect(owners.size).toBeGreaterThan(40)
    expect(Object.fromEntries(owners)).toMatchObject({
      audit: 'acts',
      hold: 'locks',
      job_live: 'jobs',
      migration: 'postgres',
      wait_order: 'limits',
    })
    expect(namesFromAbove('postgres', 'select max(fence) from holdfast.lease')).toEqual(['lease'])
    expect(namesFromAbove('limits', "select nextval('holdfast.job_number'), holdfast.job(1)")).toEqual(['job_number'])
    expect(namesFromAbove('jobs', 'select from holdfast.lease, holdfast.tick, holdfast.audit')).toEqual(['audit'])
  })
})
