// npm run release -- 0.2.0
//
// Makes a release in this clone: checks the preconditions, runs the tests, moves the changelog's unreleased part below
// the new version, commits and tags. Pushing the tag publishes the release. This script does not push.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

const [version] = process.argv.slice(2)

function refuse(reason: string): never {
  console.error(reason)
  process.exit(1)
}

const git = (...args: string[]) => execFileSync('git', args, { encoding: 'utf8' }).trim()
const read = (file: string) => readFileSync(file, 'utf8')
const parts = (text: string) => /^(\d+)\.(\d+)\.(\d+)$/.exec(text)?.slice(1).map(Number)

const manifest = JSON.parse(read('package.json'))
const changelog = read('CHANGELOG.md')
const unreleased = /^## \[Unreleased\]\n(.*?)(?=^## |$(?![\s\S]))/ms.exec(changelog)?.[1] ?? ''

const [was, will] = [parts(manifest.version), parts(version ?? '')]
if (!will) refuse('Expected a version, as in: npm run release -- 0.2.0')
const at = will.findIndex((number, place) => number !== was?.[place])
const isNext = at >= 0 && will[at] === (was?.[at] ?? 0) + 1 && will.slice(at + 1).every((number) => number === 0)
if (!isNext)
  refuse(
    `Expected a version that increases one number of ${manifest.version} by one and sets the numbers after it to zero, got ${version}`,
  )
if (git('status', '--porcelain') !== '') refuse('The working tree has uncommitted changes: git status')
if (git('rev-parse', '--abbrev-ref', 'HEAD') !== 'main') refuse('Expected the branch main')
if (git('tag', '--list', `v${version}`) !== '') refuse(`The tag v${version} already exists`)
if (unreleased.trim() === '') refuse('The changelog has no entries below "## [Unreleased]"')
if (!manifest.repository) refuse('package.json has no repository, which npm needs to prove where the package was built')

execFileSync('npm', ['test'], { stdio: 'inherit' })

const today = new Date().toISOString().slice(0, 10)
writeFileSync('CHANGELOG.md', changelog.replace('## [Unreleased]\n', `## [Unreleased]\n\n## [${version}] - ${today}\n`))
for (const file of ['package.json', 'package-lock.json']) {
  // package-lock.json contains the package's own version twice, before all dependencies' versions.
  const limit = file === 'package.json' ? 1 : 2
  let count = 0
  const text = read(file).replaceAll(`"version": "${manifest.version}"`, (found) =>
    count++ < limit ? `"version": "${version}"` : found,
  )
  writeFileSync(file, text)
}
git('commit', '--all', '--message', `Release ${version}`)
const message = `Holdfast ${version}\n\n${unreleased.trim()}`
// By default, git removes the headings of the changelog, because they start with #.
git('tag', '--annotate', '--cleanup', 'whitespace', `v${version}`, '--message', message)
console.log(`Created v${version}. To publish it, run: git push --follow-tags`)
