// A process whose connections are all terminated by an administrator goes on. It is a process of its own, because the
// test runner would catch what must not be thrown.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { sql, sqlSession } from '../setup/facts.js'
import { databaseUrl } from '../setup/instances.js'
import { typescript } from '../setup/typescript.js'

const program = fileURLToPath(new URL('../setup/survivor.ts', import.meta.url))

test('idle, parked and anchored connections may all be ended, twice', async () => {
  const url = await databaseUrl()
  const child = spawn(process.execPath, [...typescript, program, url], { stdio: ['pipe', 'pipe', 'pipe'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const complaints: string[] = []
  createInterface({ input: child.stderr }).on('line', (line) => complaints.push(line))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => (await lines.next()).value ?? `ended: ${complaints.join('\n')}`

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
  expect(complaints).toEqual([])
})

test('connections may be ended in the very moment of closing', async () => {
  const url = await databaseUrl()
  const admin = await sqlSession(url)
  const endAll =
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()'
  for (let i = 0; i < 15; i++) {
    const instance = await Holdfast.open({ url })
    // An error that nobody hears would fail the whole run.
    await Promise.all([instance.close(), admin.query(endAll), admin.query(endAll)])
  }
})
