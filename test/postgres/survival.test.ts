// Tests that a process continues after an administrator has terminated all its connections. The test uses a separate process,
// because the test runner would catch an uncaught error.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { sql, sqlSession } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { typescript } from '../setup/typescript.js'

const program = fileURLToPath(new URL('../setup/survivor.ts', import.meta.url))

test('a process survives the end of its idle, waiting and anchor connections, twice', async () => {
  const url = await databaseUrl()
  const child = spawn(process.execPath, [...typescript, program, url], { stdio: ['pipe', 'pipe', 'pipe'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const stderrLines: string[] = []
  createInterface({ input: child.stderr }).on('line', (line) => stderrLines.push(line))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => (await lines.next()).value ?? `ended: ${stderrLines.join('\n')}`

  expect(await next()).toBe('ready')
  for (let i = 0; i < 2; i++) {
    const ended = await sql(
      url,
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    expect(ended.length).toBeGreaterThan(4)
    child.stdin.write('are you there?\n')
    expect(await next()).toBe('alive')
  }
  expect(stderrLines).toEqual([])
})

test('an instance can close while its connections are terminated', async () => {
  const url = await databaseUrl()
  const admin = await sqlSession(url)
  const endAll =
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()'
  for (let i = 0; i < 15; i++) {
    const instance = await Holdfast.open({ url, log: false })
    // An error without a listener would fail the whole test run.
    await Promise.all([instance.close(), admin.query(endAll), admin.query(endAll)])
  }
})
