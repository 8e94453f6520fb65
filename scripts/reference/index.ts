// npm run reference: writes the pages of docs/reference that come from the code: the command line, the errors and the
// package's exports. With --check, it writes nothing and exits with status 1 if a page is not up to date.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { api } from './api.ts'
import { commandLine } from './command-line.ts'
import { errors } from './errors.ts'

const folder = new URL('../../docs/reference/', import.meta.url)
const apiFolder = new URL('api/', folder)

const pages = new Map([
  ['command-line.md', commandLine()],
  ['errors.md', errors()],
])
for (const [name, text] of api()) pages.set(`api/${name}`, text)

const stale = [...pages].filter(([name, text]) => {
  const file = new URL(name, folder)
  return !existsSync(file) || readFileSync(file, 'utf8') !== text
})
const obsolete = existsSync(apiFolder) ? readdirSync(apiFolder).filter((name) => !pages.has(`api/${name}`)) : []

if (process.argv.includes('--check')) {
  const wrong = [...stale.map(([name]) => name), ...obsolete.map((name) => `api/${name}`)]
  if (wrong.length > 0) {
    console.error(`Not up to date in docs/reference: ${wrong.join(', ')}. Run npm run reference.`)
    process.exitCode = 1
  }
} else {
  mkdirSync(apiFolder, { recursive: true })
  for (const [name, text] of stale) writeFileSync(new URL(name, folder), text)
  for (const name of obsolete) rmSync(new URL(name, apiFolder))
}
