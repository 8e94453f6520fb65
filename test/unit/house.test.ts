// The import rule of the house: a file imports from its own room, or through the door of a room on a lower floor.
// Rooms on one floor do not know each other, and there are no cycles between files.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const source = fileURLToPath(new URL('../../src', import.meta.url))

const floors: Record<string, number> = {
  base: 0,
  postgres: 1,
  locks: 2,
  leases: 2,
  observe: 2,
  samples: 2,
  // What an instance stands on, made from its options.
  'ground.ts': 2,
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
  // What operators do, for the dashboard and the command line.
  acts: 6,
  telemetry: 6,
  testing: 6,
  dashboard: 7,
  cli: 8,
}

const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
const roomOf = (file: string) => file.split('/')[0]!

interface Import {
  from: string
  to: string
  /** Erased by the compiler, so it cannot close a cycle at run time; the rule of the floors still holds for it. */
  onlyTypes: boolean
}

const statement =
  /^(?:import|export)\s+(type\s+)?[^'"`;]*?from\s+'(\.[^']+)'|^import\s+'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm

function importsOf(file: string): Import[] {
  const text = readFileSync(join(source, file), 'utf8')
  return [...text.matchAll(statement)].map(([, type, ...targets]) => {
    const target = targets.find((found) => found !== undefined)!
    const to = normalize(join(dirname(file), target)).replace(/\.js$/, '.ts')
    return { from: file, to, onlyTypes: type !== undefined }
  })
}

const imports = files.flatMap(importsOf)

/** Why an import breaks the rule, or undefined. */
function fault({ from, to }: Import): string | undefined {
  const [room, other] = [roomOf(from), roomOf(to)]
  if (room === other) return undefined
  const [floor, below] = [floors[room], floors[other]]
  if (floor === undefined || below === undefined) return 'a room that stands on no floor'
  if (floor <= below) return 'not from a lower floor'
  return to === other || to === `${other}/index.ts` ? undefined : 'not through the door'
}

test('the sources are read', () => {
  expect(files).toContain('holdfast.ts')
  expect(imports.length).toBeGreaterThan(50)
  expect(imports).toContainEqual({ from: 'holdfast.ts', to: 'locks/index.ts', onlyTypes: false })
})

test('every room stands on a floor', () => {
  expect([...new Set(files.map(roomOf))].filter((room) => !(room in floors))).toEqual([])
})

test('a file imports from its own room, or through the door of a lower one', () => {
  const faults = imports.map((one) => ({ ...one, fault: fault(one) })).filter((one) => one.fault)
  expect(faults.map(({ from, to, fault }) => `${from} imports ${to}: ${fault}`)).toEqual([])
})

test('the rule itself tells right from wrong', () => {
  const judge = (from: string, to: string) => fault({ from, to, onlyTypes: false })
  expect(judge('locks/lock.ts', 'postgres/index.ts')).toBeUndefined()
  expect(judge('cli/bin.ts', 'holdfast.ts')).toBeUndefined()
  expect(judge('locks/lock.ts', 'postgres/session.ts')).toBe('not through the door')
  expect(judge('locks/lock.ts', 'leases/index.ts')).toBe('not from a lower floor')
  expect(judge('postgres/session.ts', 'locks/index.ts')).toBe('not from a lower floor')
  expect(judge('embedded/server.ts', 'locks/index.ts')).toBe('not from a lower floor')
})

test('no files import each other in a circle', () => {
  const next = new Map(files.map((file) => [file, [] as string[]]))
  for (const { from, to, onlyTypes } of imports) if (!onlyTypes) next.get(from)!.push(to)
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: string[]) => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (path.includes(file) || done.has(file)) return
    for (const to of next.get(file) ?? []) visit(to, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
  expect(circles).toEqual([])
})
