// node --import ./scripts/typescript.js scripts/pack.ts <folder>
//
// Packs the package into the folder, as npm pack does, without links to files that are not packed. Needs a build.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { repositoryOf, withPackedLinks } from './packed-links.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = process.argv[2]
if (folder === undefined)
  throw new Error('Expected a folder, as in: node --import ./scripts/typescript.js scripts/pack.ts release')

const temporary = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
try {
  // Without scripts, because prepack would build dist again while other programs read it.
  const pack = (from: string, to: string) =>
    execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', to], { cwd: from })
  pack(root, temporary)
  const [tarball] = readdirSync(temporary)
  execFileSync('tar', ['-xzf', tarball!], { cwd: temporary })
  const unpacked = join(temporary, 'package')
  const repository = repositoryOf(JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8')))
  const files = new Set(readdirSync(unpacked, { recursive: true, encoding: 'utf8' }))
  for (const page of [...files].filter((name) => name.endsWith('.md'))) {
    const text = readFileSync(join(unpacked, page), 'utf8')
    writeFileSync(join(unpacked, page), withPackedLinks(text, page, files, repository))
  }
  pack(unpacked, resolve(folder))
} finally {
  rmSync(temporary, { recursive: true })
}
