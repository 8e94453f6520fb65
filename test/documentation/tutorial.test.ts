// Runs the program of the README and the files of the tutorial as printed, in an empty folder that contains only the package.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startProgram } from '../cli/program.js'
import { sql, until } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { root } from './lines.js'

/** Returns the files that a page asks its reader to save. */
function filesOf(page: string): Map<string, string> {
  const text = readFileSync(join(root, page), 'utf8')
  const blocks = text.matchAll(
    /[Ss]ave (?:this|the following) \w+ as `([\w.]+)`((?:(?!^```)[\s\S])*)^```(?:js|ts)\n([\s\S]*?)^```$/gm,
  )
  return new Map([...blocks].map(([, name, , code]) => [name!, code!]))
}

/** Creates a folder with these files and the package, and a database. */
async function newProject(files: Map<string, string>) {
  const database = await databaseUrl()
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tutorial-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules/holdfast'))
  symlinkSync(join(root, 'node_modules/pg'), join(folder, 'node_modules/pg'))
  for (const [name, code] of files) writeFileSync(join(folder, name), code)
  const start = (...line: string[]) => startProgram(process.execPath, line, { DATABASE_URL: database }, folder, 60_000)
  const holdfast = (...line: string[]) => start(join(root, 'dist/cli/bin.js'), ...line)
  return { database, start, holdfast }
}

test('the program of the README enqueues jobs, runs jobs and ends after SIGTERM', { timeout: 60_000 }, async () => {
  const files = filesOf('README.md')
  expect([...files.keys()]).toEqual(['shop.mjs'])
  const { start } = await newProject(files)
  const running = [start('shop.mjs'), start('shop.mjs')]
  await until(
    'an invoice is sent',
    () => running.some(({ stdout }) => /sends the invoice for order 1/.test(stdout)),
    30_000,
  )
  for (const one of running) one.process.kill('SIGTERM')
  for (const { ended } of running) expect(await ended).toMatchObject({ status: 0, stderr: '' })
})

test('the programs of the tutorial work as printed', { timeout: 90_000 }, async () => {
  const files = filesOf('docs/start/README.md')
  expect([...files.keys()]).toEqual(['report.mjs', 'jobs.mjs', 'order.mjs', 'shop.mjs', 'shop.test.mjs'])
  const { database, start, holdfast } = await newProject(files)

  const first = start('report.mjs')
  await until('the first process writes the report', () => /writes the report/.test(first.stdout), 20_000)
  const second = start('report.mjs')
  await until('the second process waits', () => /waits for the lock/.test(second.stdout), 20_000)
  first.process.kill('SIGKILL')
  await until('the second process writes the report', () => /writes the report/.test(second.stdout), 20_000)
  second.process.kill('SIGKILL')

  for (const order of [1, 2]) {
    const ordering = start('order.mjs')
    expect(await ordering.ended).toMatchObject({ status: 0, stderr: '' })
    expect(ordering.stdout).toMatch(`order ${order} is stored`)
  }
  const worker = holdfast('work', '--namespace', 'shop', 'jobs.mjs')
  await until('both invoices are sent', () => /order 2 in attempt 2/.test(worker.stdout), 20_000)
  expect(worker.stdout).toMatch('order 1 in attempt 1')
  worker.process.kill('SIGTERM')
  expect(await worker.ended).toMatchObject({ status: 0 })

  const shop = start('shop.mjs')
  await until('a tick counts the orders', () => /: 2 orders$/m.test(shop.stdout), 30_000)
  shop.process.kill('SIGTERM')
  expect(await shop.ended).toMatchObject({ status: 0, stderr: '' })
  for (const line of [
    ['job', 'ls', '--namespace', 'shop'],
    ['queue', 'ls', '--namespace', 'shop'],
    ['schedule', 'show', '--namespace', 'shop', 'count-orders'],
  ]) {
    expect(await holdfast(...line).ended, line.join(' ')).toMatchObject({ status: 0, stderr: '' })
  }

  const testing = start('--test', 'shop.test.mjs')
  expect(await testing.ended).toMatchObject({ status: 0, stderr: '' })
  expect(await sql(database, 'select count(*)::integer as count from orders')).toEqual([{ count: 2 }])
})
