import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { freshDatabase } from '../setup/database.js'
import { typescript } from '../setup/typescript.js'
import { runsAll } from '../setup/variants.js'

const directory = new URL('../../examples/', import.meta.url)
const helpers = ['database.ts', 'transactions/story.ts']
/** The longest. Other tests make the same calls. */
const long = [
  'city-sequences.ts',
  'divided-work.ts',
  'exclusive-report.ts',
  'failover.ts',
  'move-queue.ts',
  'resilient-queue.ts',
  'resumable-order.ts',
  'schedules-per-customer.ts',
  'thousand-at-once.ts',
  'threads.ts',
]
const left = runsAll ? helpers : [...helpers, ...long]
/** The tests of stacks run the same libraries. */
const folders = runsAll ? ['', 'handlers/', 'transactions/'] : ['']
const files = folders.flatMap(examplesIn).filter((path) => !left.includes(path))
const run = promisify(execFile)

it.concurrent.each(files)('%s prints the output that its comment shows', { timeout: 90_000 }, async (file) => {
  const path = fileURLToPath(new URL(file, directory))
  const [, expected] = readFileSync(path, 'utf8').split('// prints:\n')
  const database = await freshDatabase()
  try {
    const { stdout } = await run(process.execPath, [...typescript, path], {
      env: { ...process.env, DATABASE_URL: database.url },
    })
    if (stdout.startsWith('PgBouncer is not installed')) return console.warn(`${file}: ${stdout.trim()}`)
    expect(stdout).toBe(expected!.replace(/^\/\/ ?/gm, ''))
  } finally {
    await database.drop()
  }
})

function examplesIn(folder: string): string[] {
  const names = readdirSync(new URL(folder, directory)).filter((name) => name.endsWith('.ts'))
  return names.map((name) => folder + name)
}
