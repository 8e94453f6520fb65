// npm run reference: writes the pages of docs/reference that come from the code: the command line, and what the package exports.
// With --check it only tells, by its exit code, whether they are as it would write them.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { api } from './api.ts'
import { commandLine } from './command-line.ts'

const folder = new URL('../../docs/reference/', import.meta.url)
const apiFolder = new URL('api/', folder)

const pages = new Map([['command-line.md', commandLine()]])
for (const [name, text] of api()) pages.set(`api/${name}`, text)

const stale = [...pages].filter(([name, text]) => {
  const file = new URL(name, folder)
  return !existsSync(file) || readFileSync(file, 'utf8') !== text
})
const extra = existsSync(apiFolder) ? readdirSync(apiFolder).filter((name) => !pages.has(`api/${name}`)) : []

if (process.argv.includes('--check')) {
  const wrong = [...stale.map(([name]) => name), ...extra.map((name) => `api/${name}`)]
  if (wrong.length > 0) {
    console.error(`In docs/reference, ${wrong.join(', ')}: not what the code says. npm run reference mends it.`)
    process.exitCode = 1
  }
} else {
  mkdirSync(apiFolder, { recursive: true })
  for (const [name, text] of stale) writeFileSync(new URL(name, folder), text)
  for (const name of extra) rmSync(new URL(name, apiFolder))
}
