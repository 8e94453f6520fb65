import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { run, start, startSilentServer } from './program.js'
import { fits } from './schemas.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

/** Each command is a process, which takes seconds on an idle machine and longer on a busy one. */
const patient = { timeout: 90_000 }

test('holdfast dashboard serves this machine until it is interrupted', patient, async () => {
  const env = { DATABASE_URL: database.url }
  const running = start(['dashboard', '--port', '0', '--read-only', '--json'], env)
  await running.says(/\}\n$/)
  const { url } = fits('dashboard', JSON.parse(running.stdout)) as { url: string }
  expect(await (await fetch(`${url}api/me`)).json()).toMatchObject({ visitor: 'loopback', readOnly: true, rights: [] })
  expect(await (await fetch(url)).text()).toContain('<base href="./" />')
  const taken = await run(['dashboard', '--port', new URL(url).port], env)
  expect(taken).toMatchObject({ status: 1, stdout: '', stderr: expect.stringContaining('is already in use') })
  // An open page does not keep the process alive.
  const page = await fetch(`${url}api/live?view=audit`)
  running.process.kill('SIGINT')
  expect(await running.ended).toMatchObject({ status: 0, stderr: expect.stringContaining('(read-only)') })
  await page.text()
})

test('holdfast dashboard exits immediately after a signal while the server does not respond', patient, async () => {
  const { url, connected } = await startSilentServer()
  const running = start(['dashboard', '--port', '0'], { DATABASE_URL: url })
  await connected
  const since = performance.now()
  running.process.kill('SIGINT')
  expect(await running.ended).toMatchObject({ status: 0, stdout: '' })
  expect(performance.now() - since).toBeLessThan(5_000)
})

test('holdfast dashboard requires a reachable database and an address of this machine', async () => {
  const nowhere = await run(['dashboard', '--port', '0'], { DATABASE_URL: 'postgres://app:s3cret@127.0.0.1:1/app' })
  expect(nowhere).toMatchObject({ status: 4, stdout: '' })
  expect(nowhere.stderr).not.toContain('s3cret')
  const elsewhere = await run(['dashboard', '--port', '0', '--host', '192.0.2.1'], { DATABASE_URL: database.url })
  expect(elsewhere).toMatchObject({ status: 2, stderr: expect.stringContaining('an address of this machine') })
})
