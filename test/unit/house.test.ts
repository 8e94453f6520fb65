// The import rules of the house, for values and types alike: a file imports from its own room, or through the door of a room on a lower
// floor. Rooms on one floor do not know each other. Files do not import each other in a circle. What the browser loads is pure.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

const floors: Record<string, number> = {
  base: 0,
  cron: 1,
  postgres: 1,
  search: 1,
  locks: 2,
  leases: 2,
  observe: 2,
  samples: 2,
  // What an instance stands on, made from its options.
  'instance-context.ts': 2,
  doctor: 3,
  // A server of one's own: made of base alone, and used by the command line.
  embedded: 2,
  elections: 3,
  limits: 3,
  once: 3,
  shares: 3,
  schedules: 4,
  jobs: 4,
  // What stands before the handlers of web servers: made of once.
  http: 4,
  // The rooms, put together.
  'holdfast.ts': 5,
  // The entry of the package: whatever stands above uses what users use.
  'index.ts': 6,
  // What operators do, for the dashboard and the command line.
  acts: 7,
  demo: 7,
  telemetry: 7,
  testing: 7,
  dashboard: 8,
  cli: 9,
  // The front end of the dashboard, which runs in browsers.
  ui: 9,
}

/** Files that others may import directly. The door of base loads Node's modules, which a browser does not have. */
const sideDoors = [
  'base/clock-skew.ts',
  'base/durations.ts',
  'base/errors.ts',
  'base/job-states.ts',
  'base/suggest.ts',
  // Types alone, and none of the server's code.
  'dashboard/wire.ts',
]

/** The files of a folder, named by their place in src/, or by `ui/` and their place there. */
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
  /** Erased by the compiler. All rules hold for it, but a browser does not load it. */
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

/** Why an import breaks the rule, or undefined. */
function fault(from: string, to: string): string | undefined {
  const [room, other] = [roomOf(from), roomOf(to)]
  if (room === other) return undefined
  const [floor, below] = [floors[room], floors[other]]
  if (floor === undefined || below === undefined) return 'a room that stands on no floor'
  if (floor <= below) return 'not from a lower floor'
  if (to === other || to === `${other}/index.ts` || sideDoors.includes(to)) return undefined
  return 'not through the door'
}

/** The ways from file to file that come back to where they began. */
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

/** The files that are loaded with these: all that they import as values, directly or not. */
function loadedWith(begin: readonly string[]): string[] {
  const loaded = new Set(begin)
  // What is added is visited too.
  for (const file of loaded) {
    for (const { from, to, onlyTypes } of imports) if (from === file && !onlyTypes) loaded.add(to)
  }
  return [...loaded]
}

test('the sources are read', () => {
  expect(files).toContain('holdfast.ts')
  expect(imports.length).toBeGreaterThan(1_000)
  expect(imports).toContainEqual({ from: 'holdfast.ts', to: 'locks/index.ts', onlyTypes: false })
  expect(imports).toContainEqual({ from: 'holdfast.ts', to: 'instance-context.ts', onlyTypes: false })
  expect(imports).toContainEqual({ from: 'locks/lock.ts', to: 'locks/hold.ts', onlyTypes: true })
  expect(imports).toContainEqual({ from: 'ui/wire.ts', to: 'dashboard/wire.ts', onlyTypes: true })
  expect(imports).toContainEqual({ from: 'ui/routes.ts', to: 'search/index.ts', onlyTypes: false })
})

test('every import leads to a source', () => {
  expect(imports.filter(({ to }) => !known.has(to))).toEqual([])
})

test('every room stands on a floor', () => {
  expect([...new Set(files.map(roomOf))].filter((room) => !(room in floors))).toEqual([])
})

test('a file imports from its own room, or through the door of a lower one', () => {
  const faults = imports.map(({ from, to }) => ({ from, to, fault: fault(from, to) })).filter((one) => one.fault)
  expect(faults.map(({ from, to, fault }) => `${from} imports ${to}: ${fault}`)).toEqual([])
})

test('the rule itself tells right from wrong', () => {
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

test('no files import each other in a circle, not even for types', () => {
  expect(circlesIn(imports)).toEqual([])
})

test('the search for circles finds them', () => {
  const edges = ['a b', 'b c', 'c b', 'c d'].map((edge) => ({ from: edge[0]!, to: edge[2]! }))
  expect(circlesIn(edges)).toEqual(['b → c → b'])
})

test('what the browser loads of the server imports neither Node nor packages', () => {
  const loaded = loadedWith(files.filter((file) => roomOf(file) === 'ui')).filter((file) => roomOf(file) !== 'ui')
  expect(loaded).toContain('search/job-search.ts')
  expect(loaded).toContain('base/errors.ts')
  const outside = /^(?:import|export)\s[^'"`;]*?from\s+'[^.']|^import\s+'[^.']|\bimport\('[^.']/m
  const impure = loaded.filter((file) => outside.test(textOf(file)))
  expect(impure).toEqual([])
})
