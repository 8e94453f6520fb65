import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, type TestContext, test } from 'vitest'
import { allMigrations } from '../../src/postgres/index.js'

// Checks the rules of docs/operating/upgrades.md for changes of the schema against the released versions: the tags of this
// repository.
const root = fileURLToPath(new URL('../../', import.meta.url))

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

function linesOf(...args: string[]): string[] {
  try {
    return git(...args)
      .split('\n')
      .filter((line) => line !== '')
  } catch {
    return [] // Not a repository, so no release is known.
  }
}

const releases = linesOf('tag', '--list', 'v[0-9]*', '--sort=version:refname')
const isOfTables = (path: string) => /^src\/(postgres\/migrations\/\d+-[^/]+\.sql|[^/]+\/schema\.sql)$/.test(path)
const isOfFunctions = (path: string) => /^src\/([^/]+\/functions\.sql|postgres\/planner-settings\.ts)$/.test(path)
const revisionFile = 'src/postgres/schema-rooms.ts'

/** Files of a release or of this checkout, by path. */
type Files = ReadonlyMap<string, string>
const releasedFiles = (release: string, is: (path: string) => boolean): Files =>
  new Map(
    linesOf('ls-tree', '-r', '--name-only', release, 'src/')
      .filter(is)
      .map((path) => [path, git('show', `${release}:${path}`)]),
  )
const filesHere = (is: (path: string) => boolean): Files =>
  new Map(
    linesOf('ls-files', '--cached', '--others', '--exclude-standard', 'src/')
      .filter(is)
      .map((path) => [path, readFileSync(`${root}${path}`, 'utf8')]),
  )

const revisionIn = (text: string) => Number(/^export const functionsRevision = (\d+)$/m.exec(text)![1])

/** Returns the name, parameters and result of each function: the text before "language". */
function headsOf(files: Files): Set<string> {
  const heads = [...files.values()].flatMap(
    (text) => text.match(/^create or replace function .*?(?=\n {2}language)/gms) ?? [],
  )
  return new Set(heads.map((head) => head.replaceAll(/\s+/g, ' ')))
}

const differs = (one: Files, other: Files) =>
  one.size !== other.size || [...one].some(([path, text]) => other.get(path) !== text)

/** Returns the last release. Without a release, the test passes with an annotation. */
async function lastRelease(annotate: TestContext['annotate']): Promise<string | undefined> {
  const release = releases.at(-1)
  if (release === undefined) await annotate('There is no release yet: nothing to compare with.')
  return release
}

test('released tables are changed by new migrations only', async ({ annotate }) => {
  const release = await lastRelease(annotate)
  if (release === undefined) return
  const here = filesHere(isOfTables)
  const released = releasedFiles(release, isOfTables)
  for (const [path, text] of released) expect(here.get(path), path).toBe(text)
  // The tables of a new room need a migration too, because existing databases already have the baseline.
  const added = [...here.keys()].filter((path) => path.endsWith('/schema.sql') && !released.has(path))
  expect(added).toEqual([])
})

test('a migration after a release works with the code of that release, within a major version', async ({
  annotate,
}) => {
  if ((await lastRelease(annotate)) === undefined) return
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
  const first = releases.find((release) => release.startsWith(`v${version.split('.')[0]}.`))
  if (first === undefined) return
  const released = 1 + [...releasedFiles(first, isOfTables).keys()].filter((path) => path.includes('migrations')).length
  for (const { version, name, worksFrom } of allMigrations('holdfast').slice(released)) {
    expect(worksFrom, `${version} ${name} works from`).toBeLessThanOrEqual(released)
  }
})

test('the revision of functions is higher than in the last release if functions differ', async ({ annotate }) => {
  const release = await lastRelease(annotate)
  if (release === undefined) return
  const revision = revisionIn(readFileSync(`${root}${revisionFile}`, 'utf8'))
  const released = revisionIn(git('show', `${release}:${revisionFile}`))
  if (differs(releasedFiles(release, isOfFunctions), filesHere(isOfFunctions))) {
    expect(revision, `functionsRevision in ${revisionFile}`).toBe(released + 1)
  } else expect(revision).toBe(released)
})

test('a released function keeps its name, parameters and result within a major version', async ({ annotate }) => {
  const release = await lastRelease(annotate)
  if (release === undefined) return
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
  if (!release.startsWith(`v${version.split('.')[0]}.`)) return
  const here = headsOf(filesHere(isOfFunctions))
  expect([...headsOf(releasedFiles(release, isOfFunctions))].filter((head) => !here.has(head))).toEqual([])
})

test('the comparison finds functions that differ, and heads that changed', () => {
  const here = filesHere(isOfFunctions)
  expect(here.size).toBeGreaterThan(7)
  expect(headsOf(here).size).toBeGreaterThan(80)
  expect(differs(here, filesHere(isOfFunctions))).toBe(false)
  expect(revisionIn(readFileSync(`${root}${revisionFile}`, 'utf8'))).toBeGreaterThan(0)
  const path = 'src/postgres/functions.sql'
  const body = new Map(here).set(path, here.get(path)!.replace('class::bigint << 32', 'class::bigint << 33'))
  expect(differs(here, body)).toBe(true)
  expect(headsOf(body)).toEqual(headsOf(here))
  const head = new Map(here).set(path, here.get(path)!.replace('pair_key(class integer,', 'pair_key(class bigint,'))
  expect(headsOf(head)).not.toEqual(headsOf(here))
})
