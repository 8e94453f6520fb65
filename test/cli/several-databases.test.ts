// Tests the commands with several databases.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { open } from '../setup/instances.js'
import { run, start } from './program.js'
import { fits, fitsRow } from './schemas.js'

let eu: FreshDatabase
let us: FreshDatabase
let env: NodeJS.ProcessEnv
const nowhere = 'postgres://app:s3cret@127.0.0.1:1/app'
beforeAll(async () => {
  ;[eu, us] = await Promise.all([freshDatabase(), freshDatabase()])
  env = { DATABASE_URL: `eu=${eu.url} us=${us.url}` }
})
afterAll(() => Promise.all([eu.drop(), us.drop()]))

test('top reports all databases, and one that is down does not hide the others', async () => {
  const holdfast = await open({ url: us.url })
  await holdfast.locks.acquire('nightly report')
  const urls = ['--url', `eu=${eu.url}`, '--url', `us=${us.url}`, '--url', `ap=${nowhere}`]
  const { status, stdout, stderr } = await run(['top', '--once', ...urls])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/^ {2}eu +up +0 +0 /m)
  expect(stdout).toMatch(/^ {2}us +up +1 +0 /m)
  expect(stdout).toMatch(/^ {2}ap +down/m)
  expect(stdout).toMatch(/^ {2}all +2 of 3 up +1 /m)
  expect(stdout).toMatch(/^us:\n.*\n(.*\n)+LOCKS 1\n/m)
  expect(stdout).not.toContain('s3cret')
  const json = fits('top', JSON.parse((await run(['top', '--json', ...urls])).stdout))
  const counts = [
    { name: 'eu', overview: { counts: { held: 0 } } },
    { name: 'us', overview: { counts: { held: 1 } } },
  ]
  const down = { name: 'ap', overview: null, error: expect.stringContaining('cannot be reached') }
  expect(json).toMatchObject({ databases: [...counts, down] })
  fitsRow('top', JSON.parse((await run(['top', '--jsonl', '--once'], env)).stdout))
  expect(await run(['top', '--once', '--url', `a=${nowhere}`, '--url', `b=${nowhere}`])).toMatchObject({ status: 4 })
  expect((await run(['top', '--json', '--database', 'us'], env)).stdout).toContain('nightly report')
})

test('a command for one database requires --database', async () => {
  const refused = await run(['lock', 'ls'], env)
  expect(refused).toMatchObject({ status: 2, stdout: '' })
  expect(refused.stderr).toContain('This command works on one database, but the settings contain 2: eu, us')
  expect(refused.stderr).toContain('Add --database eu')
  expect(await run(['lock', 'ls', '--database', 'us'], env)).toMatchObject({ status: 0 })
  expect(await run(['lock', 'ls'], { ...env, HOLDFAST_DATABASE: 'eu' })).toMatchObject({ status: 0 })
  const mistyped = await run(['lock', 'ls', '--database', 'uss'], env)
  expect(mistyped).toMatchObject({ status: 2, stderr: expect.stringContaining('Did you mean us?') })
  const same = await run(['lock', 'ls', '--url', `eu=${eu.url}`, '--url', `eu=${us.url}`])
  expect(same).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('a different name for each of the 2 databases'),
  })
  // A name alone is no reason for a switch.
  expect(await run(['lock', 'ls', '--url', `eu=${eu.url}`])).toMatchObject({ status: 0 })
})

test('holdfast dashboard serves several databases, and starts while one is down', { timeout: 60_000 }, async () => {
  const running = start(['dashboard', '--port', '0', '--json', '--url', `eu=${eu.url}`, '--url', `ap=${nowhere}`])
  await running.says(/\}\n$/)
  const { url } = fits('dashboard', JSON.parse(running.stdout)) as { url: string }
  expect(await (await fetch(`${url}api/me`)).json()).toMatchObject({ databases: ['eu', 'ap'], databaseName: 'eu' })
  expect((await fetch(`${url}api/view/eu:overview`)).status).toBe(200)
  running.process.kill('SIGINT')
  const ended = await running.ended
  expect(ended).toMatchObject({ status: 0, stderr: expect.stringContaining('ap: The database cannot be reached') })
  expect(ended.stderr).not.toContain('s3cret')
})
