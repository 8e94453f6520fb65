import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { bin, eventually, isAlive, type Running, run, start, startOnTerminal, startProgram } from './program.js'

let database: FreshDatabase
let client: pg.Client
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
})
afterAll(async () => {
  await client.end()
  await database.drop()
})

const leftovers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const remove of leftovers.splice(0).reverse()) await remove()
})

async function openHoldfast(): Promise<Holdfast> {
  const holdfast = await Holdfast.open({ url: database.url })
  leftovers.push(() => holdfast.close())
  return holdfast
}

/** Returns the arguments that run this JavaScript as the command. */
const script = (source: string) => ['--', process.execPath, '-e', source]

/** JavaScript that prints its pid and then idles. */
const idle = 'console.log("pid", process.pid); setInterval(() => {}, 1e6);'

async function pidOf(running: Running): Promise<number> {
  return Number((await running.says(/pid (\d+)/))[1])
}

async function countOf(sql: string, values: unknown[] = []): Promise<number> {
  return Number((await client.query({ text: sql, values, rowMode: 'array' })).rows[0]![0])
}

const holding = (name: string, granted = true) =>
  countOf(
    `select count(*) from pg_locks where locktype = 'advisory' and objsubid = 1 and granted = $2
     and (classid::bigint << 32) | objid::bigint = holdfast.lock_key('default', $1)
     and database = (select oid from pg_database where datname = current_database())`,
    [name, granted],
  )

/** Ends the sessions that hold the name. */
const terminateHolders = (name: string) =>
  countOf(
    `select count(pg_terminate_backend(pid)) from pg_locks where locktype = 'advisory' and objsubid = 1 and granted
     and (classid::bigint << 32) | objid::bigint = holdfast.lock_key('default', $1)
     and database = (select oid from pg_database where datname = current_database())`,
    [name],
  )

describe('the command of lock run', () => {
  test('the command runs while the name is held, and the name is free afterwards', async () => {
    const running = start(['lock', 'run', 'held', '--', 'cat'], env)
    await eventually(() => holding('held')).toBe(1)
    running.process.stdin!.end('done')
    expect(await running.ended).toEqual({ status: 0, stdout: 'done', stderr: '' })
    expect(await holding('held')).toBe(0)
  })

  test('the command receives stdin, stdout, stderr, its arguments unchanged, the name and the fence', async () => {
    const source = `
      process.stdin.pipe(process.stdout)
      console.error(JSON.stringify([process.argv.slice(1), process.env.HOLDFAST_NAME, process.env.HOLDFAST_FENCE]))`
    const running = start(['lock', 'run', 'city:london', ...script(source), '--', '--json', 'a b'], env)
    running.process.stdin!.end('from stdin')
    const { status, stdout, stderr } = await running.ended
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'from stdin' })
    expect(JSON.parse(stderr)).toEqual([['--json', 'a b'], 'city:london', expect.stringMatching(/^\d+$/)])
  })

  test('the command receives a larger fence on each run', async () => {
    const fence = async () =>
      Number((await run(['lock', 'run', 'f', '--', 'sh', '-c', 'echo $HOLDFAST_FENCE'], env)).stdout)
    const first = await fence()
    expect(await fence()).toBeGreaterThan(first)
  })

  test('the exit status of the command becomes the exit status of lock run', async () => {
    expect((await run(['lock', 'run', 'x', '--', 'sh', '-c', 'exit 41'], env)).status).toBe(41)
  })

  test('a command that a signal ends makes lock run exit with 128 + n', async () => {
    expect((await run(['lock', 'run', 'x', '--', 'sh', '-c', 'kill -KILL $$'], env)).status).toBe(137)
  })

  test('a missing command exits with 127 even if PATH has a directory without search permission; commands in other directories run', async ({
    skip,
  }) => {
    // Root can search every directory. If root runs this test, `lock run` therefore runs as user 65534.
    const asOrdinaryUser =
      process.getuid!() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []
    const [program, ...args] = [...asOrdinaryUser, process.execPath]
    const reach = ['-e', `fs.accessSync(${JSON.stringify(bin)})`]
    const canRun = spawnSync(program!, [...args, ...reach]).status === 0
    skip(!canRun, 'an ordinary user cannot run the built command here')
    const places = mkdtempSync(join(tmpdir(), 'holdfast-path-'))
    onTestFinished(() => rmSync(places, { recursive: true }))
    chmodSync(places, 0o755)
    const [closed, open] = [join(places, 'closed'), join(places, 'open')]
    mkdirSync(closed, { mode: 0 })
    mkdirSync(open)
    writeFileSync(join(open, 'greet'), '#!/bin/sh\necho hello\n', { mode: 0o755 })
    writeFileSync(join(open, 'plain'), 'data\n', { mode: 0o644 })
    const lockRun = (command: string) =>
      startProgram(program!, [...args, bin, 'lock', 'run', 'x', '--', command], {
        ...env,
        PATH: [closed, open, process.env.PATH].join(delimiter),
      }).ended
    const missing = 'holdfast: "no-such-command" was not found\n'
    expect(await lockRun('no-such-command')).toEqual({ status: 127, stdout: '', stderr: missing })
    expect(await lockRun('greet')).toEqual({ status: 0, stdout: 'hello\n', stderr: '' })
    const forbidden = 'holdfast: "plain" may not be executed\n'
    expect(await lockRun('plain')).toEqual({ status: 126, stdout: '', stderr: forbidden })
  })

  test('a missing command exits with 127, a command that cannot be executed with 126, and neither keeps the name', async () => {
    const missing = await run(['lock', 'run', 'x', '--', '/no/such/command'], env)
    expect(missing).toEqual({ status: 127, stdout: '', stderr: 'holdfast: "/no/such/command" was not found\n' })
    const forbidden = await run(['lock', 'run', 'x', '--', '/'], env)
    expect(forbidden).toEqual({ status: 126, stdout: '', stderr: 'holdfast: "/" may not be executed\n' })
    expect(await holding('x')).toBe(0)
  })

  test('the command does not start after an invalid argument or a failed connection, and lock run exits with 125', async () => {
    const wrong = [
      ['lock', 'run'],
      ['lock', 'run', 'x'],
      ['lock', 'run', 'x', '--'],
      ['lock', 'run', 'x', '--', ''],
      ['lock', 'run', 'x', 'echo', 'started'],
      ['lock', 'run', 'x', '--sharde', '--', 'echo', 'started'],
      ['lock', 'run', 'x', '--wait', 'soon', '--', 'echo', 'started'],
      ['lock', 'run', 'x', '--expiry', '1s', '--', 'echo', 'started'],
      ['lock', 'run', 'x', '--busy-exit', '300', '--', 'echo', 'started'],
      ['lock', 'run', '', '--', 'echo', 'started'],
      ['lock', 'run', 'x', '--url', 'postgres://127.0.0.1:1/x', '--', 'echo', 'started'],
    ]
    for (const args of wrong) {
      const { status, stdout, stderr } = await run(args, env)
      expect({ args, status, stdout }).toEqual({ args, status: 125, stdout: '' })
      expect(stderr).toMatch(/^holdfast: /)
    }
  })
})

test('lock run checks its arguments before it looks for a database', async () => {
  const wrong = [
    { words: ['--'], message: 'Expected a command after --' },
    { words: ['--expiry', '1s', '--', 'true'], message: 'Expected --expiry to be a duration of at least 2s' },
  ]
  for (const { words, message } of wrong) {
    const { status, stderr } = await run(['lock', 'run', 'x', ...words], { DATABASE_URL: undefined })
    expect({ status, stderr }).toEqual({ status: 125, stderr: expect.stringContaining(message) })
  }
})

describe('a taken name', () => {
  test('a taken name exits with 124 after --no-wait or after the wait has timed out, or with the status of --busy-exit', async () => {
    const holdfast = await openHoldfast()
    await holdfast.locks.acquire('taken')
    const busy = async (...options: string[]) => run(['lock', 'run', 'taken', ...options, '--', 'echo', 'started'], env)
    expect(await busy('--no-wait')).toEqual({ status: 124, stdout: '', stderr: 'holdfast: "taken" is taken\n' })
    const late = await busy('--wait', '300ms')
    expect(late).toMatchObject({
      status: 124,
      stdout: '',
      stderr: 'holdfast: "taken" is taken and the wait timed out\n',
    })
    expect((await busy('--no-wait', '--busy-exit', '0')).status).toBe(0)
    const viaEnv = await run(['lock', 'run', 'taken', '--', 'echo', 'started'], {
      ...env,
      HOLDFAST_NO_WAIT: '1',
      HOLDFAST_BUSY_EXIT: '75',
    })
    expect(viaEnv).toMatchObject({ status: 75, stdout: '' })
  })

  test('a taken name is waited for without limit by default', async () => {
    const holdfast = await openHoldfast()
    const lock = await holdfast.locks.acquire('later')
    const running = start(['lock', 'run', 'later', '--', 'echo', 'started'], env)
    await eventually(() => holding('later', false)).toBe(1)
    expect(running.stdout).toBe('')
    await lock.release()
    expect(await running.ended).toEqual({ status: 0, stdout: 'started\n', stderr: '' })
  })

  test.runIf(process.platform === 'linux')('lock run shows on a terminal that it waits for a taken name', async () => {
    const holdfast = await openHoldfast()
    const lock = await holdfast.locks.acquire('watched')
    const running = startOnTerminal(['lock', 'run', 'watched', '--', 'echo', 'started'], env)
    await running.says(/^holdfast: waiting for "watched"/)
    await lock.release()
    expect((await running.ended).status).toBe(0)
  })

  test('a shared hold admits other shared holds but no exclusive hold', async () => {
    const first = start(['lock', 'run', '--shared', 'read', '--', 'cat'], env)
    await eventually(() => holding('read')).toBe(1)
    expect((await run(['lock', 'run', '--shared', '--no-wait', 'read', '--', 'true'], env)).status).toBe(0)
    expect((await run(['lock', 'run', '--no-wait', 'read', '--', 'true'], env)).status).toBe(124)
    first.process.stdin!.end()
    expect((await first.ended).status).toBe(0)
  })

  test('a name that is taken in one namespace is free in another', async () => {
    const holdfast = await openHoldfast()
    await holdfast.locks.acquire('spaced')
    const args = ['lock', 'run', '--no-wait', 'spaced', '--namespace', 'other', '--', 'true']
    expect((await run(args, env)).status).toBe(0)
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('lock run stops waiting on %s and leaves no waiter in the database', async (signal, status) => {
    const holdfast = await openHoldfast()
    await holdfast.locks.acquire('given-up')
    const running = start(['lock', 'run', 'given-up', '--', 'echo', 'started'], env)
    await eventually(() => holding('given-up', false)).toBe(1)
    running.process.kill(signal)
    expect(await running.ended).toMatchObject({ status, stdout: '' })
    await eventually(() => holding('given-up', false)).toBe(0)
  })
})

describe('signals', () => {
  test.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'])(
    '%s is passed on to the command',
    async (signal) => {
      // The command listens for the signal before it prints its pid.
      const source = `process.on('${signal}', () => { console.log('got it'); process.exit(42) }); ${idle}`
      const running = start(['lock', 'run', signal, ...script(source)], env)
      await pidOf(running)
      running.process.kill(signal as NodeJS.Signals)
      const { status, stdout } = await running.ended
      expect({ status, got: stdout.includes('got it') }).toEqual({ status: 42, got: true })
    },
  )

  test.runIf(process.platform === 'linux')('Ctrl-C in a terminal reaches the command once', async () => {
    const source = `
      process.on('SIGINT', () => console.log('interrupted'))
      process.on('SIGUSR1', () => process.exit(9))
      setInterval(() => {}, 1e6)
      console.log('wrapped by ' + process.ppid)`
    const running = startOnTerminal(['lock', 'run', 'terminal', ...script(source)], env)
    const wrapper = Number((await running.says(/wrapped by (\d+)/))[1])
    // `lock run` is stopped meanwhile. Two SIGINT that arrive at the same time would count as one.
    process.kill(wrapper, 'SIGSTOP')
    running.type('\x03')
    await running.says(/interrupted/)
    process.kill(wrapper, 'SIGCONT')
    // `lock run` passes on SIGUSR1 after any signal that it passes on because of Ctrl-C.
    process.kill(wrapper, 'SIGUSR1')
    const { status, stdout } = await running.ended
    expect(stdout.match(/interrupted/g)).toHaveLength(1)
    expect(status).toBe(9)
  })
})

describe('a lost lock', () => {
  test('a lost lock stops the command and exits with 123', async () => {
    const running = start(['lock', 'run', 'lost', ...script(idle)], env)
    const pid = await pidOf(running)
    await terminateHolders('lost')
    const { status, stderr } = await running.ended
    expect(stderr).toContain('"lost" was lost')
    expect(status).toBe(123)
    expect(isAlive(pid)).toBe(false)
  })

  test('a lost lock kills a command that does not stop after SIGTERM', async () => {
    const source = `process.on('SIGTERM', () => console.log('asked to stop')); ${idle}`
    const running = start(['lock', 'run', 'stubborn', '--kill-after', '200ms', ...script(source)], env)
    const pid = await pidOf(running)
    await terminateHolders('stubborn')
    const { status, stdout } = await running.ended
    expect({ status, asked: stdout.includes('asked to stop') }).toEqual({ status: 123, asked: true })
    expect(isAlive(pid)).toBe(false)
  })

  test('a lost lock kills the command even if the stderr of lock run has no reader', async () => {
    const running = start(
      ['lock', 'run', 'unheard', '--kill-after', '200ms', ...script(`process.on('SIGTERM', () => {}); ${idle}`)],
      env,
    )
    const pid = await pidOf(running)
    running.process.stderr!.destroy()
    await terminateHolders('unheard')
    expect((await running.ended).status).toBe(123)
    expect(isAlive(pid)).toBe(false)
  })

  test('a lost lock also stops the processes that the command has started', async () => {
    const shell = `${process.execPath} -e 'process.on("SIGTERM", () => {}); ${idle}' & wait`
    const running = start(['lock', 'run', 'family', '--kill-after', '200ms', '--', 'sh', '-c', shell], env)
    const grandchild = await pidOf(running)
    await terminateHolders('family')
    expect((await running.ended).status).toBe(123)
    await eventually(() => isAlive(grandchild)).toBe(false)
  })

  test('a lock that is lost while lock run is frozen exits with 123', async () => {
    const untilStdinEnds = 'console.log("pid", process.pid); process.stdin.resume()'
    const running = start(['lock', 'run', 'frozen', '--expiry', '2s', ...script(untilStdinEnds)], env)
    // Freeze `lock run` only after the command runs. `lock run` would release a grant that it receives while frozen, and
    // request the name again.
    await pidOf(running)
    running.process.kill('SIGSTOP')
    await eventually(() => holding('frozen')).toBe(0)
    running.process.stdin!.end()
    running.process.kill('SIGCONT')
    expect((await running.ended).status).toBe(123)
  })
})

describe('a release request', () => {
  test('a release request stops the command, and lock run exits with the status of the command', async () => {
    const source = `process.on('SIGTERM', () => process.exit(9)); ${idle}`
    const running = start(['lock', 'run', 'asked', ...script(source)], env)
    await pidOf(running)
    const asking = await run(['lock', 'release', 'asked'], env)
    expect(asking).toMatchObject({ status: 0, stdout: '', stderr: expect.stringContaining('Asked ') })
    const { status, stderr } = await running.ended
    expect(stderr).toContain('An operator requested the release of "asked"')
    expect(status).toBe(9)
    expect(await holding('asked')).toBe(0)
  })
})
