import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Holdfast, LeaseLostError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { untilRegistered } from '../setup/facts.js'
import { eventually, run, start, startOnTerminal } from './program.js'
import { fits, fitsRow, schemaOf } from './schemas.js'

let database: FreshDatabase
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
})
afterAll(() => database.drop())

const opened: Holdfast[] = []
let holder: Holdfast
beforeEach(async () => {
  holder = await open()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map((holdfast) => holdfast.close()))
})

async function open(namespace = 'default', anchor: 'required' | 'none' = 'required'): Promise<Holdfast> {
  const holdfast = await Holdfast.open({ url: database.url, namespace, anchor })
  opened.push(holdfast)
  return holdfast
}

async function json(args: string[]): Promise<unknown> {
  const { stdout } = await run([...args, '--json'], env)
  return fits(schemaOf(args), JSON.parse(stdout))
}

const script = (source: string) => ['--', process.execPath, '-e', source]

describe('lease ls', () => {
  test('lease ls prints one document, JSON lines or tab-separated fields', async () => {
    const one = await holder.leases.acquire('one', { ttl: '1m' })
    const other = await open('billing', 'none')
    await other.leases.acquire('two')
    await untilRegistered(database.url, 'one', 'two')
    expect(await json(['lease', 'ls'])).toMatchObject([
      {
        ...{ label: 'two', namespace: 'billing', held: true, instance: other.id, instanceName: other.name },
        ...{ host: null, osPid: null, ttlMs: 30_000 },
      },
      {
        label: 'one',
        namespace: 'default',
        held: true,
        instance: holder.id,
        osPid: process.pid,
        fence: one.fence,
        ttlMs: 60_000,
        hasWaiters: false,
      },
    ])
    const { stdout: lines } = await run(['lease', 'ls', '--jsonl'], env)
    expect(
      lines
        .trimEnd()
        .split('\n')
        .map((line) => fitsRow('lease-ls', JSON.parse(line)).label),
    ).toEqual(['two', 'one'])
    const { stdout: piped } = await run(['lease', 'ls', '--namespace', 'default'], env)
    const fields = piped.trimEnd().split('\t')
    expect(fields.slice(0, 3)).toEqual(['one', 'default', 'leased'])
    const facts = [holder.name, holder.id, expect.any(String), String(process.pid), String(one.fence)]
    expect(fields.slice(5, 10)).toEqual(facts)
    expect(Number(fields[4])).toBeGreaterThan(30_000)
  })

  test('lease ls lists a name while its minimum hold lasts, but not a released name', async () => {
    await holder.leases.with('kept', { minHold: '1h' }, () => {})
    await holder.leases.with('given back', () => {})
    expect(await json(['lease', 'ls'])).toMatchObject([{ label: 'kept', held: false }])
    await run(['lease', 'expire', 'kept', '--yes'], env)
  })

  test('lease ls reports on stderr that no name is leased, and prints nothing on stdout', async () => {
    expect(await run(['lease', 'ls'], env)).toEqual({ status: 0, stdout: '', stderr: 'No name is leased.\n' })
    expect(await json(['lease', 'ls'])).toEqual([])
  })

  test.runIf(process.platform === 'linux')('lease ls prints a table that fits the terminal', async () => {
    await holder.leases.acquire('a-name-that-is-rather-long/'.repeat(5))
    const { stdout } = await startOnTerminal(['lease', 'ls'], { ...env, NO_COLOR: '1' }).ended
    const plain = stdout.replaceAll('\r', '')
    expect(plain).toMatch(/^NAME +STATE +FOR +EXPIRES IN +INSTANCE\n/)
    for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
  })
})

describe('lease show', () => {
  test('lease show prints the holder, the expiry, and that another instance waits', async () => {
    const waiter = await open()
    const lease = await holder.leases.acquire('shown', { ttl: '1m' })
    waiter.leases.acquire('shown').catch(() => {})
    await eventually(() => json(['lease', 'show', 'shown'])).toMatchObject({
      name: 'shown',
      namespace: 'default',
      key: lease.key,
      state: 'leased',
      lease: { instance: holder.id, fence: lease.fence, hasWaiters: true },
    })
    const { stdout, status } = await run(['lease', 'show', 'shown'], env)
    expect(stdout).toMatch(
      new RegExp(`^leased by\t${holder.name}, instance ${holder.id}, for .*, fence ${lease.fence}$`, 'm'),
    )
    expect(stdout).toMatch(/^free in\t[\d.]+s, unless the holder renews the lease for another 1m$/m)
    expect(stdout).toMatch(/^has waiters\tyes$/m)
    expect(status).toBe(0)
  })

  test('lease show also reports that a name is free, locked, or blocked by its minimum hold', async () => {
    expect((await run(['lease', 'show', 'nobody'], env)).stdout).toContain('state\tfree\n')
    await using _lock = await holder.locks.acquire('locked')
    expect((await run(['lease', 'show', 'locked'], env)).stdout).toContain('state\tlocked: `holdfast lock show`')
    await holder.leases.with('kept', { minHold: '1h' }, () => {})
    const { stdout } = await run(['lease', 'show', 'kept'], env)
    expect(stdout).toContain('state\tblocked: the lease was released, but its minimum hold has not ended\n')
    expect(stdout).toMatch(/^was leased by\t/m)
    await run(['lease', 'expire', 'kept', '--yes'], env)
  })
})

describe('lease expire', () => {
  test('lease expire without a terminal and without --yes shows its plan and refuses', async () => {
    const lease = await holder.leases.acquire('precious')
    const { status, stdout, stderr } = await run(['lease', 'expire', 'precious'], env)
    expect(stderr).toContain(`  Holder: ${holder.name}, instance ${holder.id}`)
    expect(stderr).toContain(`Guarded writes with its fence ${lease.fence}`)
    expect(stderr).toContain('Add --yes')
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    await lease.extend()
  })

  test('lease expire --yes notifies the holder, fences it, and lets the waiter acquire the name', async () => {
    const waiter = await open()
    const lease = await holder.leases.acquire('taken', { ttl: '1h' })
    const next = waiter.leases.acquire('taken')
    await eventually(() => json(['lease', 'show', 'taken'])).toMatchObject({ lease: { hasWaiters: true } })
    const lost = new Promise((resolve) => lease.signal.addEventListener('abort', () => resolve(lease.signal.reason)))
    const { status, stdout } = await run(['lease', 'expire', 'taken', '--yes', '--json'], env)
    expect(fits('lease-expire', JSON.parse(stdout))).toMatchObject({ expired: { label: 'taken', instance: holder.id } })
    expect(status).toBe(0)
    expect(await lost).toBeInstanceOf(LeaseLostError)
    expect((await next).fence).toBeGreaterThan(lease.fence)
  })

  test('lease expire ends a minimum hold', async () => {
    await holder.leases.with('kept', { minHold: '1h' }, () => {})
    const { status, stderr } = await run(['lease', 'expire', 'kept', '--yes'], env)
    expect(stderr).toContain('Ends the minimum hold on "kept"')
    expect(status).toBe(0)
    await using _next = await holder.leases.acquire('kept', { wait: 0 })
  })

  test('lease expire of a free name exits with 3', async () => {
    expect(await run(['lease', 'expire', '--yes', 'free'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: '"free" is not leased: there is nothing to expire.\n',
    })
  })

  test.runIf(process.platform === 'linux')('lease expire asks for confirmation on a terminal', async () => {
    const lease = await holder.leases.acquire('asked')
    const refused = startOnTerminal(['lease', 'expire', 'asked'], env)
    await refused.says(/Expire this lease\? \[y\/N\]/)
    refused.type('\r')
    expect(await refused.ended).toMatchObject({ status: 1, stdout: expect.stringContaining('Nothing was done.') })
    const agreed = startOnTerminal(['lease', 'expire', 'asked'], env)
    await agreed.says(/Expire this lease\? \[y\/N\]/)
    agreed.type('y\r')
    expect((await agreed.ended).status).toBe(0)
    await eventually(() => lease.held).toBe(false)
  })
})

describe('other verbs', () => {
  test('lock show and lock ls report that a name is leased, and lock show prints its holder', async () => {
    const lease = await holder.leases.acquire('leased')
    expect(await json(['lock', 'show', 'leased'])).toMatchObject({
      name: 'leased',
      state: 'leased',
      holders: [],
      lease: { instance: holder.id, fence: lease.fence },
    })
    const { stdout } = await run(['lock', 'show', 'leased'], env)
    expect(stdout).toContain('state\tleased\n')
    expect(stdout).toMatch(/^leased by\t/m)
    const { stderr } = await run(['lock', 'ls'], env)
    expect(stderr).toBe('No name is locked.\n1 name is leased. Run `holdfast lease ls` to list them.\n')
  })

  test('instance ls counts leases', async () => {
    await holder.leases.acquire('counted')
    expect(await json(['instance', 'ls'])).toContainEqual(
      expect.objectContaining({ id: holder.id, alive: true, held: 0, leased: 1 }),
    )
  })
})

describe('lock run --lease', () => {
  test('lock run --lease runs the command with a fence while the name is leased, and releases the name afterwards', async () => {
    const running = start(['lock', 'run', '--lease', '--ttl', '5s', 'job', ...script(waits)], env)
    await running.says(/fence \d+/)
    expect(await json(['lease', 'show', 'job'])).toMatchObject({ state: 'leased', lease: { ttlMs: 5_000 } })
    expect(await holder.leases.tryAcquire('job')).toBeNull()
    expect(await run(['lock', 'run', '--lease', '--no-wait', 'job', '--', 'true'], env)).toMatchObject({ status: 124 })
    expect(await run(['lock', 'run', '--no-wait', 'job', '--', 'true'], env)).toMatchObject({ status: 124 })
    running.process.stdin!.end()
    expect((await running.ended).status).toBe(0)
    expect(await json(['lease', 'show', 'job'])).toMatchObject({ state: 'free' })
  })

  test('lock run --lease --min-hold keeps the name taken after a quick run', async () => {
    expect((await run(['lock', 'run', '--lease', '--min-hold', '1h', 'quick', '--', 'true'], env)).status).toBe(0)
    expect(await run(['lock', 'run', '--lease', '--no-wait', 'quick', '--', 'true'], env)).toMatchObject({
      status: 124,
    })
    await run(['lease', 'expire', 'quick', '--yes'], env)
  })

  test('lock run --lease stops the command when an operator expires the lease', async () => {
    const running = start(['lock', 'run', '--lease', '--ttl', '1s', 'stopped', ...script(waits)], env)
    await running.says(/fence \d+/)
    await run(['lease', 'expire', 'stopped', '--yes'], env)
    const { status, stderr } = await running.ended
    expect(stderr).toContain(
      'The lease "stopped" was lost: the lease has expired, or another process has expired or released it',
    )
    expect(status).toBe(123)
  })

  test.each([
    [['--ttl', '5s'], 'Expected --lease together with --ttl: locks do not support --ttl'],
    [['--min-hold', '5s'], 'Expected --lease together with --min-hold: locks do not support --min-hold'],
    [['--lease', '--shared'], 'Expected --lease or --shared, got both: a lease has only one holder'],
    [['--lease', '--ttl', '5ms'], 'Expected --ttl to be a duration of at least 1s, such as 30s or 5m, got "5ms"'],
  ])('lock run with %j is a usage error', async (options, complaint) => {
    const { status, stderr } = await run(['lock', 'run', ...options, 'name', '--', 'true'], env)
    expect(stderr.split('\n')[0]).toBe(`holdfast: ${complaint}`)
    expect(status).toBe(125)
  })
})

const waits =
  'console.log("fence", process.env.HOLDFAST_FENCE); process.stdin.resume(); process.stdin.on("end", () => process.exit())'
