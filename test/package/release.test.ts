import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { typescript } from '../setup/typescript.js'

const run = promisify(execFile)
const script = fileURLToPath(new URL('../../scripts/release.ts', import.meta.url))

/** Creates a clone of a project like this one, whose tests pass immediately. */
async function makeProject(manifest: object = {}) {
  const cwd = await mkdtemp(join(tmpdir(), 'holdfast-release-'))
  onTestFinished(() => rm(cwd, { recursive: true, force: true }))
  const git = async (...args: string[]) => (await run('git', args, { cwd })).stdout.trim()
  const whole = { version: '0.1.0', repository: 'owner/project', scripts: { test: 'echo tested' }, ...manifest }
  await writeFile(join(cwd, 'package.json'), JSON.stringify(whole, null, 2))
  const lock = { version: '0.1.0', packages: { '': { version: '0.1.0' }, other: { version: '0.1.0' } } }
  await writeFile(join(cwd, 'package-lock.json'), JSON.stringify(lock, null, 2))
  await writeFile(
    join(cwd, 'CHANGELOG.md'),
    '# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Something.\n\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- The first.\n',
  )
  await git('init', '--quiet', '--initial-branch', 'main')
  await git('config', 'user.name', 'test')
  await git('config', 'user.email', 'test@example.com')
  await git('add', '.')
  await git('commit', '--quiet', '--message', 'all')
  const release = (...args: string[]) =>
    run(process.execPath, [...typescript, script, ...args], { cwd }).then(
      ({ stdout }) => stdout,
      ({ stderr }: { stderr: string }) => stderr,
    )
  return { cwd, git, release, read: (name: string) => readFile(join(cwd, name), 'utf8') }
}

test('the release script runs the tests, sets the version, updates the changelog, commits and tags', async () => {
  const { release, git, read } = await makeProject()
  expect(await release('0.2.0')).toMatch(/tested.*Created v0\.2\.0/s)
  expect(await read('CHANGELOG.md')).toMatch(
    /^## \[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n\n- Something\.\n\n## \[0\.1\.0\]/m,
  )
  expect(JSON.parse(await read('package.json')).version).toBe('0.2.0')
  const lock = JSON.parse(await read('package-lock.json'))
  expect([lock.version, lock.packages[''].version, lock.packages.other.version]).toEqual(['0.2.0', '0.2.0', '0.1.0'])
  expect(await git('status', '--porcelain')).toBe('')
  expect(await git('tag', '--list', '--format', '%(subject) %(body)')).toBe('Holdfast 0.2.0 ### Added\n\n- Something.')
})

test('the changelog has the headings of keepachangelog.com', async () => {
  const text = await readFile(new URL('../../CHANGELOG.md', import.meta.url), 'utf8')
  const headings = [...text.matchAll(/^(##+) (.*)$/gm)]
  const versions = headings.filter(([, level]) => level === '##').map(([, , heading]) => heading!)
  expect(versions[0]).toBe('[Unreleased]')
  for (const version of versions.slice(1)) expect(version).toMatch(/^\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d$/)
  const kinds = headings.filter(([, level]) => level === '###').map(([, , heading]) => heading!)
  expect(kinds.length).toBeGreaterThan(3)
  for (const kind of kinds) expect(['Added', 'Changed', 'Deprecated', 'Removed', 'Fixed', 'Security']).toContain(kind)
})

test('the release script refuses an invalid version, uncommitted files and another branch, and changes nothing', async () => {
  const { release, git, cwd } = await makeProject()
  const before = await git('rev-parse', 'HEAD')
  expect(await release()).toMatch('Expected a version')
  for (const wrong of ['0.1.0', '0.3.0', '0.2.1', '2.0.0', '0.0.9']) {
    expect(await release(wrong)).toMatch('Expected a version that increases one number of 0.1.0 by one')
  }
  await writeFile(join(cwd, 'left.txt'), '')
  expect(await release('0.2.0')).toMatch('The working tree has uncommitted changes')
  await rm(join(cwd, 'left.txt'))
  await git('checkout', '--quiet', '-b', 'other')
  expect(await release('0.2.0')).toMatch('Expected the branch main')
  expect(await git('rev-parse', 'HEAD')).toBe(before)
})

test('the release script stops if the tests fail or package.json has no repository', async () => {
  const failing = await makeProject({ scripts: { test: 'exit 1' } })
  await failing.release('0.2.0')
  expect(await failing.git('tag')).toBe('')
  expect(await failing.git('status', '--porcelain')).toBe('')
  const withoutRepository = await makeProject({ repository: undefined })
  expect(await withoutRepository.release('0.2.0')).toMatch('has no repository')
})
