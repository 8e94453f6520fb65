import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Holdfast, type Permit, PermitLostError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { eventually, run, startOnTerminal } from './program.js'
import { fits } from './schemas.js'

let database: FreshDatabase
let env: NodeJS.ProcessEnv
let holder: Holdfast
/** An instance without an anchor. It receives no notifications. */
let apart: Holdfast
let permit: Permit
let heavy: Permit
let next: Promise<Permit>
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
  holder = await Holdfast.open({ url: database.url })
  apart = await Holdfast.open({ url: database.url, anchor: 'none', expiry: '2s' })
  permit = await holder.limits.acquire('export:42', { max: 1 })
  heavy = await apart.limits.acquire('gpu', { max: 8, weight: 3 })
  next = holder.limits.acquire('export:42', { max: 1, wait: '10m' })
  next.catch(() => {})
  await until(
    'the holder waits for a second permit',
    async () => (await holder.limits.usage('export:42')).waiters.length === 1,
  )
  for (let i = 0; i < 5; i++) await holder.limits.consume('api:ann', { rate: '5/h' })
  await holder.limits.with('idle', { max: 1 }, () => {})
})
afterAll(async () => {
  await apart.close()
  await holder.close()
  await database.drop()
})

async function json(args: readonly string[]) {
  const { status, stdout, stderr } = await run([...args, '--json'], env)
  expect({ status, stderr }).toMatchObject({ status: 0 })
  return JSON.parse(stdout)
}

describe('limit ls', () => {
  test('limit ls lists limits with waiters first, then limits in use, then spent rates', async () => {
    const limits = fits('limit-ls', await json(['limit', 'ls']))
    expect(limits).toMatchObject([
      { name: 'export:42', kind: 'permits', state: 'full', inUse: 1, max: 1, holders: 1, waiting: 1 },
      { name: 'gpu', kind: 'permits', state: 'used', inUse: 3, max: 8, holders: 1, waiting: 0 },
      { name: 'api:ann', kind: 'rate', state: 'spent', inUse: null, refilledAt: expect.any(String) },
    ])
    const { stdout } = await run(['limit', 'ls', '--prefix', 'exp'], env)
    expect(stdout.split('\t').slice(0, 8)).toEqual(['export:42', 'default', 'permits', 'full', '1', '1', '1', '1'])
  })

  test('limit ls filters by state and by prefix, and reports an empty result', async () => {
    const [free, none, few, wrong] = await Promise.all([
      json(['limit', 'ls', '--state', 'free']),
      run(['limit', 'ls', '--prefix', 'none'], env),
      run(['limit', 'ls', '--limit', '1'], env),
      run(['limit', 'ls', '--state', 'fulll'], env),
    ])
    expect(free).toMatchObject([{ name: 'idle', max: null, holders: 0 }])
    expect(none).toEqual({ status: 0, stdout: '', stderr: 'No limits found.\n' })
    expect(few).toMatchObject({ status: 0, stderr: 'Only the first 1 limits are shown. Use --limit to show more.\n' })
    expect(wrong).toMatchObject({ status: 2, stderr: expect.stringContaining('Did you mean full?') })
  })

  test('limit ls does not count permits of dead instances', async () => {
    await sql(
      database.url,
      `insert into holdfast.permit (key, token, session, instance, weight, max, fence, since)
       select key, 1, -1, 'dead', 5, 8, 1, now() from holdfast.limit_state where name = 'gpu'`,
    )
    expect(await json(['limit', 'ls', '--prefix', 'gpu'])).toMatchObject([{ inUse: 3, holders: 1 }])
  })
})

test('limit show prints the holders, the waiters, and when a rate is refilled', async () => {
  const [permits, rate, shown] = await Promise.all([
    json(['limit', 'show', 'export:42']),
    json(['limit', 'show', 'api:ann']),
    run(['limit', 'show', 'gpu'], env),
  ])
  expect(fits('limit-show', permits)).toMatchObject({
    name: 'export:42',
    permits: {
      inUse: 1,
      max: 1,
      holders: [{ instance: holder.id, osPid: process.pid, weight: 1, fence: permit.fence }],
      waiters: [{ instance: holder.id, fence: null }],
    },
    rate: null,
  })
  expect(fits('limit-show', rate)).toMatchObject({
    permits: { inUse: 0, max: null, holders: [] },
    rate: { refilledInMs: expect.any(Number) },
  })
  expect(shown.stdout).toContain('in use\t3 of 8\n')
  expect(shown.stdout).toContain(`instance ${apart.id}`)
  const second = await holder.limits.acquire('gpu', { max: 8 })
  const { stdout } = await run(['limit', 'show', 'gpu', '--limit', '1'], env)
  expect(stdout).toContain('held by\t… and 1 more (use --limit to show more)\n')
  await second.release()
})

describe('limit reset', () => {
  test('limit reset must be confirmed', async () => {
    const { status, stderr } = await run(['limit', 'reset', 'export:42'], env)
    expect(stderr).toContain('Revokes 1 permit for "export:42".')
    expect(stderr).toContain('Nothing was done: resetting a limit must be confirmed')
    expect(status).toBe(2)
    const prompt = startOnTerminal(['limit', 'reset', 'export:42'], env)
    await prompt.says(/Reset this limit\? \[y\/N\]/)
    prompt.type('\r')
    expect(await prompt.ended).toMatchObject({ status: 1, stdout: expect.stringContaining('Nothing was done.') })
    expect(permit.held).toBe(true)
  })

  test('limit reset revokes the permits, notifies their holders, and lets the waiter acquire one', async () => {
    const { status, stdout } = await run(['limit', 'reset', 'export:42', '--yes', '--json'], env)
    expect(status).toBe(0)
    expect(fits('limit-reset', JSON.parse(stdout))).toEqual({
      ended: [{ instance: holder.id, instanceName: holder.name, weight: 1, fence: permit.fence }],
      refilled: false,
    })
    await eventually(() => permit.held).toBe(false)
    expect(permit.signal.reason).toBeInstanceOf(PermitLostError)
    expect(permit.signal.reason.message).toContain('an operator has reset the limit')
    expect((await next).fence).toBeGreaterThan(permit.fence)
    // The release of a revoked permit does not release the permit of the next holder.
    await permit.release()
    expect((await holder.limits.usage('export:42')).inUse).toBe(1)
  })

  test('limit reset reaches a holder without an anchor through its presence', async () => {
    expect((await run(['limit', 'reset', 'gpu', '--yes'], env)).status).toBe(0)
    await eventually(() => heavy.held).toBe(false)
    expect(heavy.signal.reason).toBeInstanceOf(PermitLostError)
    const after = await apart.limits.acquire('gpu', { max: 8, weight: 8 })
    expect(after.held).toBe(true)
    await after.release()
  })

  test('limit reset refills a rate', async () => {
    expect(await holder.limits.consume('api:ann', { rate: '5/h' })).toMatchObject({ allowed: false })
    expect(fits('limit-reset', await json(['limit', 'reset', 'api:ann', '--yes']))).toEqual({
      ended: [],
      refilled: true,
    })
    expect(await holder.limits.consume('api:ann', { rate: '5/h' })).toEqual({ allowed: true, remaining: 4 })
  })

  test('limit reset of an unused limit exits with 3', async () => {
    const { status, stderr } = await run(['limit', 'reset', 'idle', '--yes'], env)
    expect(stderr).toBe('No permit for "idle" is held, and its rate limit is unused: there is nothing to reset.\n')
    expect(status).toBe(3)
  })

  test('limit reset of an unused limit suggests a used limit with a similar name', async () => {
    await using _permit = await holder.limits.acquire('export:ann', { max: 1 })
    const { status, stderr } = await run(['limit', 'reset', 'exprot:ann', '--yes'], env)
    expect(stderr).toContain('there is nothing to reset. Did you mean "export:ann"?\n')
    expect(status).toBe(3)
  })
})
