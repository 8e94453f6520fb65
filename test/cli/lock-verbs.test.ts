import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Holdfast, LockLostError } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { untilRegistered } from '../setup/facts.js'
import { eventually, run, startOnTerminal } from './program.js'
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

async function open(namespace = 'default'): Promise<Holdfast> {
  const holdfast = await Holdfast.open({ url: database.url, namespace })
  opened.push(holdfast)
  return holdfast
}

/** Waits for a name until the instance closes. */
function waitFor(holdfast: Holdfast, name: string): void {
  holdfast.locks.acquire(name).catch(() => {})
}

async function json(args: string[]): Promise<unknown> {
  const { stdout } = await run([...args, '--json'], env)
  return fits(schemaOf(args), JSON.parse(stdout))
}

async function stranger(name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, application_name: 'psql' })
  client.on('error', () => {})
  await client.connect()
  await client.query("select pg_advisory_lock(holdfast.lock_key('default', $1))", [name])
  return client
}

describe('lock ls', () => {
  test('lock ls prints one document, JSON lines or tab-separated fields', async () => {
    await holder.locks.acquire('one')
    const other = await open('billing')
    await other.locks.acquire('two', { mode: 'shared' })
    await untilRegistered(database.url, 'one', 'two')
    const locks = (await json(['lock', 'ls'])) as Record<string, unknown>[]
    expect(locks).toMatchObject([
      { label: 'two', namespace: 'billing', mode: 'shared', granted: true, instance: other.id, osPid: process.pid },
      { label: 'one', namespace: 'default', mode: 'exclusive', granted: true, instance: holder.id },
    ])
    const { stdout: lines } = await run(['lock', 'ls', '--jsonl'], env)
    const parsed = lines.trimEnd().split('\n')
    expect(parsed.map((line) => fitsRow('lock-ls', JSON.parse(line)).label)).toEqual(['two', 'one'])
    const { stdout: piped } = await run(['lock', 'ls', '--namespace', 'default'], env)
    const fields = piped.split('\t')
    expect(fields.slice(0, 4)).toEqual(['one', 'default', 'holds', 'exclusive'])
    expect(fields).toContain(holder.id)
    expect(piped).toBe(`${fields.join('\t').trimEnd()}\n`)
  })

  test('lock ls reports on stderr that no name is locked, and prints nothing on stdout', async () => {
    expect(await run(['lock', 'ls'], env)).toEqual({ status: 0, stdout: '', stderr: 'No name is locked.\n' })
    expect(await json(['lock', 'ls'])).toEqual([])
  })

  test('lock ls escapes characters that would break a line', async () => {
    const name = 'tab\there\nand \x1b[31mred'
    await holder.locks.acquire(name)
    await untilRegistered(database.url, name)
    const { stdout } = await run(['lock', 'ls'], env)
    expect(stdout.split('\t')[0]).toBe('tab\\there\\nand \\u001b[31mred')
  })

  test.runIf(process.platform === 'linux')('lock ls shows waiters below their holder on a terminal', async () => {
    const waiter = await open()
    await holder.locks.acquire('contended')
    waitFor(waiter, 'contended')
    await eventually(async () => ((await json(['lock', 'ls'])) as []).length).toBe(2)
    const { stdout } = await startOnTerminal(['lock', 'ls'], { ...env, NO_COLOR: '1' }).ended
    const [, held, waits] = stdout.split('\r\n')
    expect(held).toMatch(/^contended +holds +exclusive +1 /)
    expect(waits).toMatch(/^└─ +waits +exclusive +/)
  })

  test.runIf(process.platform === 'linux')(
    'a list shows as many rows as fit the terminal, or all with --all',
    async () => {
      for (let at = 0; at < 30; at++) await holder.locks.acquire(`many ${at}`)
      const rowsOf = ({ stdout }: { stdout: string }) => stdout.split('\r\n').filter((line) => line.startsWith('many '))
      const [fitting, all] = await Promise.all(
        [[], ['--all']].map((more) => startOnTerminal(['lock', 'ls', ...more], env).ended),
      )
      expect(rowsOf(fitting!)).toHaveLength(19)
      expect(fitting!.stdout).toContain('11 more rows. Add --all to print all rows.')
      expect(rowsOf(all!)).toHaveLength(30)
    },
  )

  test.runIf(process.platform === 'linux')(
    'lock ls prints a table that fits the terminal, with colours unless NO_COLOR is set',
    async () => {
      await holder.locks.acquire('a-name-that-is-rather-long/'.repeat(5))
      const onTerminal = async (extra: NodeJS.ProcessEnv) => {
        const { stdout } = await startOnTerminal(['lock', 'ls'], { ...env, ...extra }).ended
        return stdout.replaceAll('\r', '')
      }
      const plain = await onTerminal({ NO_COLOR: '1' })
      expect(plain).toMatch(/^NAME +STATE +MODE +WAITERS +FOR +INSTANCE\n/)
      expect(plain).toContain('…')
      for (const line of plain.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
      expect(plain).not.toContain('\x1b')
      // Node.js assumes that a terminal in CI has no colours.
      expect(await onTerminal({ CI: undefined, TERM: 'xterm-256color' })).toContain('\x1b[32mholds\x1b[0m')
    },
  )
})

describe('lock show', () => {
  test('lock show prints the holder and the waiters', async () => {
    const waiter = await open()
    const lock = await holder.locks.acquire('shown')
    waitFor(waiter, 'shown')
    await eventually(async () => ((await json(['lock', 'show', 'shown'])) as { waiters: [] }).waiters.length).toBe(1)
    // The database records the fence after some seconds.
    await eventually(async () => json(['lock', 'show', 'shown'])).toMatchObject({
      name: 'shown',
      namespace: 'default',
      key: holder.locks.key('shown'),
      state: 'exclusive',
      holders: [{ instance: holder.id, fence: lock.fence }],
      waiters: [{ instance: waiter.id, granted: false }],
    })
    const { stdout } = await run(['lock', 'show', 'shown'], env)
    expect(stdout).toMatch(new RegExp(`^holder\t${holder.name}, instance ${holder.id}, .*fence ${lock.fence}$`, 'm'))
    expect(stdout).toMatch(/^waits\t/m)
  })

  test('lock show also reports that a name is free', async () => {
    const { status, stdout } = await run(['lock', 'show', 'nobody'], env)
    expect(stdout).toContain('state\tfree\n')
    expect(status).toBe(0)
  })

  test('lock show and lock break of a name that is held in another namespace name this namespace', async () => {
    await using _lock = await holder.locks.acquire('of ops')
    const hint = 'Add, for example, --namespace'
    expect((await run(['lock', 'show', 'of ops', '--namespace', 'other'], env)).stdout).toContain(hint)
    expect((await run(['lease', 'show', 'of ops', '--namespace', 'other'], env)).stdout).toContain(hint)
    const { status, stderr } = await run(['lock', 'break', 'of ops', '--namespace', 'other', '--yes'], env)
    expect({ status, stderr }).toEqual({ status: 3, stderr: expect.stringContaining(hint) })
  })

  test('lock show finds a lock without a name by its key', async () => {
    await holder.locks.acquire(holder.locks.pair(-7, 5))
    const { stdout } = await run(['lock', 'show', '--key', '-30064771067'], env)
    expect(stdout).toContain('name\t-7/5\n')
    expect(stdout).toContain('state\theld, exclusive\n')
  })
})

describe('lock release', () => {
  test('lock release aborts the signal of the holder, but does not release the lock', async () => {
    const lock = await holder.locks.acquire('asked')
    const { status, stderr } = await run(['lock', 'release', 'asked'], env)
    expect(stderr).toContain(`Asked ${holder.name} to release "asked"`)
    expect(status).toBe(0)
    await eventually(() => lock.signal.aborted).toBe(true)
    expect(lock.signal.reason).toMatchObject({ code: 'RELEASE_REQUESTED' })
    expect(lock.held).toBe(true)
  })

  test('lock release and lock break of a free name suggest a held name of the same namespace', async () => {
    await using _lock = await holder.locks.acquire('nightly-report')
    const meant = 'Did you mean "nightly-report"?'
    for (const line of [
      ['release', 'nightly-reprot'],
      ['break', 'nightly-reprot', '--yes'],
    ]) {
      const { status, stderr } = await run(['lock', ...line], env)
      expect({ status, stderr }).toEqual({ status: 3, stderr: expect.stringContaining(meant) })
    }
    const { stderr } = await run(['lock', 'release', 'nightly-reprot', '--namespace', 'other'], env)
    expect(stderr).toBe('"nightly-reprot" is free: it has no holder.\n')
  })

  test('lock release of a free name, or of a name that only other programs hold, exits with 3', async () => {
    expect(await run(['lock', 'release', 'free'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: '"free" is free: it has no holder.\n',
    })
    const client = await stranger('strange')
    const { status, stderr } = await run(['lock', 'release', 'strange'], env)
    await client.end()
    expect(stderr).toContain('because the lock was acquired without Holdfast')
    expect(status).toBe(3)
  })
})

describe('lock break', () => {
  test('lock break without a terminal and without --yes shows its plan and refuses', async () => {
    const lock = await holder.locks.acquire('precious')
    await holder.locks.acquire('other')
    const { status, stdout, stderr } = await run(['lock', 'break', 'precious'], env)
    expect(stderr).toContain(`of instance ${holder.id}`)
    expect(stderr).toContain('which also holds')
    expect(stderr).toContain('Add --yes')
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
    expect(lock.held).toBe(true)
  })

  test('lock break --yes ends the session, and the holder loses the lock', async () => {
    const lock = await holder.locks.acquire('broken')
    await untilRegistered(database.url, 'broken')
    const lost = new Promise((resolve) => lock.signal.addEventListener('abort', () => resolve(lock.signal.reason)))
    const { status, stdout } = await run(['lock', 'break', 'broken', '--yes', '--json'], env)
    expect(fits('lock-break', JSON.parse(stdout))).toMatchObject({ ended: [{ label: 'broken', instance: holder.id }] })
    expect(status).toBe(0)
    expect(await lost).toBeInstanceOf(LockLostError)
  })

  test('lock break also ends a session that does not use Holdfast', async () => {
    const client = await stranger('strange')
    const ended = new Promise((resolve) => client.once('end', resolve))
    const { status, stderr } = await run(['lock', 'break', '--yes', 'strange'], env)
    expect(stderr).toContain('  psql: session ')
    expect(status).toBe(0)
    await ended
  })

  test('lock break of a free name exits with 3', async () => {
    expect(await run(['lock', 'break', '--yes', 'free'], env)).toMatchObject({ status: 3, stdout: '' })
  })

  test.runIf(process.platform === 'linux')('lock break asks for confirmation on a terminal', async () => {
    const lock = await holder.locks.acquire('asked')
    const refused = startOnTerminal(['lock', 'break', 'asked'], env)
    await refused.says(/End every session that holds this lock\? \[y\/N\]/)
    refused.type('\r')
    expect(await refused.ended).toMatchObject({ status: 1, stdout: expect.stringContaining('Nothing was done.') })
    expect(lock.held).toBe(true)

    const agreed = startOnTerminal(['lock', 'break', 'asked'], env)
    await agreed.says(/End every session that holds this lock\? \[y\/N\]/)
    agreed.type('y\r')
    expect((await agreed.ended).status).toBe(0)
    await eventually(() => lock.held).toBe(false)
  })
})

describe('graph', () => {
  test('graph is empty if nothing waits', async () => {
    await holder.locks.acquire('alone')
    expect(await run(['graph'], env)).toEqual({ status: 0, stdout: '', stderr: 'Nothing is waiting.\n' })
  })

  test('graph shows who waits for whom, starting with the root holder', async () => {
    const [second, third] = [await open(), await open()]
    await holder.locks.acquire('report')
    await second.locks.acquire('invoice')
    waitFor(second, 'report')
    const waiting = async () => {
      const { names } = (await json(['graph'])) as { names: { waiting: number }[] }
      return names.reduce((sum, name) => sum + name.waiting, 0)
    }
    await eventually(waiting).toBe(1)
    waitFor(third, 'report')
    waitFor(third, 'invoice')
    await eventually(waiting).toBe(3)
    const { stdout } = await run(['graph'], env)
    const shape = stdout
      .replace(/ for [\d.]+m?s/g, '')
      .replace(
        /\S+\/\d+(#\d+)?/g,
        (name) => ['first', 'second', 'third'][[holder.name, second.name, third.name].indexOf(name)]!,
      )
    expect(shape).toBe(
      [
        'first',
        '└─ lock report, held',
        '   ├─ remedy: holdfast lock release report',
        '   ├─ or: holdfast lock break report',
        '   ├─ second waits',
        '   │  └─ lock invoice, held',
        '   │     └─ third waits',
        '   └─ third waits',
        '',
      ].join('\n'),
    )
  })
})

test('instance ls lists the instances and the number of names that they hold', async () => {
  await holder.locks.acquire('held')
  const { stdout } = await run(['instance', 'ls'], env)
  const fields = stdout
    .split('\n')
    .find((line) => line.includes(holder.id!))!
    .split('\t')
  expect(fields.slice(0, 3)).toEqual([holder.name, 'alive', 'default'])
  expect(fields.slice(3, 5)).toEqual(['1', '0'])
  expect(fields[8]).toBe(holder.id)
  expect(await json(['instance', 'ls'])).toContainEqual(
    expect.objectContaining({ id: holder.id, alive: true, held: 1 }),
  )
})
