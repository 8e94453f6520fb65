import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { allMigrations } from '../../src/postgres/index.js'

// The rules of docs/operating/upgrades.md for those who write a migration, against what was released: the tags of this repository.
const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = 'src/postgres/migrations/'

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

function linesOf(...args: string[]): string[] {
  try {
    return git(...args)
      .split('\n')
      .filter((line) => line !== '')
  } catch {
    return [] // Not a repository: then nothing is known of releases.
  }
}

const releases = linesOf('tag', '--list', 'v[0-9]*', '--sort=version:refname')
const migrationsOf = (release: string) => linesOf('ls-tree', '-r', '--name-only', release, folder)

test.skipIf(releases.length === 0)('a released migration is never edited', () => {
  const release = releases.at(-1)!
  for (const path of migrationsOf(release)) {
    expect(readFileSync(`${root}${path}`, 'utf8'), path).toBe(git('show', `${release}:${path}`))
  }
})

test.skipIf(releases.length === 0)('what came after a release works with its code, within a major version', () => {
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'))
  const first = releases.find((release) => release.startsWith(`v${version.split('.')[0]}.`))
  if (first === undefined) return
  const released = migrationsOf(first).length
  for (const { version, name, worksFrom } of allMigrations('holdfast').slice(released)) {
    expect(worksFrom, `${version} ${name} works from`).toBeLessThanOrEqual(released)
  }
})
