import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { gate } from '../jobs/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql } from '../setup/facts.js'
import { run, startOnTerminal } from './program.js'
import { fits, fitsRow } from './schemas.js'

let database: FreshDatabase
let env: NodeJS.ProcessEnv
let runner: Holdfast
const ends = gate()
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
  runner = await Holdfast.open({ url: database.url })
  await runner.once.run('stripe:1', { fingerprint: 'abc' }, () => ({ paid: 42 }))
  await runner.once
    .run('stripe:2', { failures: 'record' }, () => Promise.reject(new TypeError('broken')))
    .catch(() => {})
  await runner.once.run('large', () => 'x'.repeat(70_000))
  void runner.once.run('stripe:3', () => ends.opened)
  await sql(
    database.url,
    `insert into holdfast.delivery (namespace, key, state, token, session, instance, fence, body, started_at, finished_at, expires_at)
     values ('default', 'stripe:4', 'in-flight', '', -1, 'dead', 1, null, now(), null, now() + interval '1 hour'),
            ('default', 'stripe_old', 'done', '', 0, 'dead', 1, null, now(), now(), now() - interval '1 hour'),
            ('other', 'stripe:5', 'done', '', 0, 'dead', 1, '\\xff00', now(), now(), now() + interval '1 hour')`,
  )
})
afterAll(async () => {
  ends.open()
  await runner.close()
  await database.drop()
})

async function json(args: readonly string[]) {
  const { status, stdout, stderr } = await run([...args, '--json'], env)
  expect({ status, stderr }).toMatchObject({ status: 0 })
  return JSON.parse(stdout)
}

test('delivery ls lists the latest deliveries, by state and by prefix', async () => {
  const listed = (...more: string[]) => run(['delivery', 'ls', ...more], env)
  const [all, prefixed, others, lost, few, none] = await Promise.all([
    json(['delivery', 'ls']),
    listed('--prefix', 'stripe:', '--jsonl'),
    listed('--prefix', 'stripe:', '--namespace', 'other'),
    listed('--state', 'lost'),
    listed('--limit', '2'),
    listed('--namespace', 'none'),
  ])
  const states = fits('delivery-ls', all as { key: string; state: string }[]).map(({ key, state }) => [key, state])
  expect(Object.fromEntries(states)).toEqual({
    'stripe:1': 'done',
    'stripe:2': 'failed',
    'stripe:3': 'in-flight',
    'stripe:4': 'lost',
    'stripe:5': 'done',
    large: 'done',
  })
  const lines = prefixed.stdout.trim().split('\n')
  const keys = lines.map((line) => fitsRow('delivery-ls', JSON.parse(line)).key)
  expect(keys).toEqual(['stripe:1', 'stripe:2', 'stripe:3', 'stripe:4', 'stripe:5'])
  expect(others.stdout.split('\n').map((line) => line.split('\t')[0])).toEqual(['stripe:5', ''])
  expect(lost.stdout.split('\t').slice(0, 3)).toEqual(['stripe:4', 'default', 'lost'])
  expect(few.stdout.trim().split('\n')).toHaveLength(2)
  expect(few.stderr).toBe('Only the first 2 deliveries are shown. Use --limit to show more.\n')
  expect(none.stderr).toBe('No deliveries found.\n')
})

test('delivery show prints the answer, or why there is none', async () => {
  const shown = (key: string, ...more: string[]) => run(['delivery', 'show', key, ...more], env)
  const other = ['--namespace', 'other']
  const [done, large, bytes, failed, running, binary, old] = await Promise.all([
    json(['delivery', 'show', 'stripe:1']),
    json(['delivery', 'show', 'large']),
    json(['delivery', 'show', 'stripe:5', ...other]),
    shown('stripe:2'),
    shown('stripe:3'),
    shown('stripe:5', ...other),
    shown('stripe_old'),
  ])
  const answer = { state: 'done', instance: runner.id, fingerprint: 'abc', value: { paid: 42 }, body: null }
  expect(fits('delivery-show', done)).toMatchObject(answer)
  expect(fits('delivery-show', large)).toMatchObject({ value: null, valueBytes: 70_002 })
  expect(fits('delivery-show', bytes)).toMatchObject({ body: '/wA=', bodyBytes: 2 })
  expect(failed.stdout).toMatch(/^failure\t\{"name":"TypeError","message":"broken"/m)
  expect(running.stdout).toMatch(/^runs on\t.* instance .*, fence \d+$/m)
  expect(binary.stdout).toContain('body\t2 bytes, binary\n')
  expect(old).toMatchObject({
    status: 3,
    stdout: '',
    stderr: expect.stringContaining('There is no delivery "stripe_old"'),
  })
})

describe('delivery forget', () => {
  test('delivery forget must be confirmed, and lets the next delivery run', async () => {
    const { status, stderr } = await run(['delivery', 'forget', 'stripe:1'], env)
    expect(stderr).toContain('The next delivery with this key runs again')
    expect(stderr).toContain('Nothing was done: forgetting a delivery must be confirmed')
    expect(status).toBe(2)
    const prompt = startOnTerminal(['delivery', 'forget', 'stripe:1'], env)
    await prompt.says(/Forget this delivery\? \[y\/N\]/)
    prompt.type('y\r')
    expect((await prompt.ended).status).toBe(0)
    expect(await runner.once.run('stripe:1', () => 'again')).toEqual({ status: 'done', value: 'again' })
  })

  test('delivery forget refuses a running delivery, but accepts a delivery whose runner is dead', async () => {
    const refused = await run(['delivery', 'forget', 'stripe:3', '--yes', '--json'], env)
    expect(refused.status).toBe(3)
    expect(fits('delivery-forget', JSON.parse(refused.stdout))).toEqual({ forgotten: null })
    expect(refused.stderr).toMatch(/^"stripe:3" has been running for .* on \S+\/\d+\. If/)
    expect(fits('delivery-forget', await json(['delivery', 'forget', 'stripe:4', '--yes']))).toEqual({
      forgotten: 'stripe:4',
    })
    const gone = await run(['delivery', 'forget', 'stripe:4', '--yes'], env)
    expect(gone).toMatchObject({ status: 3, stderr: expect.stringContaining('There is no delivery "stripe:4"') })
  })
})
