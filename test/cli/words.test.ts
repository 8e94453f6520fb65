import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { run, runAlone } from './program.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

const nowhere = 'postgres://app:s3cret@127.0.0.1:1/app'

describe('help', () => {
  test.each([
    [['--help']],
    [['lock', '--help']],
    [['lock', 'run', '--help']],
    [['lock', 'break', '--help']],
    [['lease', '--help']],
    [['lease', 'expire', '--help']],
    [['work', '--help']],
    [['job', '--help']],
    [['job', 'add', '--help']],
    [['job', 'retry', '--help']],
    [['migrate', '--help']],
    [['help', 'graph']],
  ])('%j prints help that starts with examples to stdout', async (args) => {
    const { status, stdout, stderr } = await run(args)
    expect(stdout).toMatch(/^Examples:\n {2}holdfast /)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })

  test('a noun without a verb prints its verbs to stderr and is a usage error', async () => {
    const { status, stdout, stderr } = await run(['lock'])
    expect(stderr).toContain('release')
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })

  test('the help groups the commands, and only it lists all global options', async () => {
    const [whole, verb] = await Promise.all([run(['--help']), run(['lock', 'ls', '--help'])])
    expect(whole.stdout.match(/^(Look|Inspect and change objects|Run|Develop):$/gm)).toHaveLength(4)
    expect(whole.stdout).toContain('--expiry')
    expect(verb.stdout).toContain('--url')
    expect(verb.stdout).not.toMatch(/--expiry|--direct-url|--schema/)
  })

  test.each([
    [
      ['locks', 'list'],
      ['lock', 'ls'],
    ],
    [
      ['deliveries', 'rm', '--help'],
      ['delivery', 'forget', '--help'],
    ],
    [
      ['queues', 'ls'],
      ['queue', 'ls'],
    ],
    [
      ['help', 'jobs', 'get'],
      ['help', 'job', 'show'],
    ],
  ])('%j is the same command as %j', async (alias, command) => {
    const env = { DATABASE_URL: database.url }
    expect(await run(alias, env)).toEqual(await run(command, env))
  })

  test('--version prints the version', async () => {
    const { status, stdout } = await runAlone(['--version'])
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\S*\n$/)
    expect(status).toBe(0)
  })

  test('the help does not load the driver, so that it is fast', async () => {
    const { stderr } = await runAlone(['lock', 'run', '--help'], { NODE_DEBUG: 'esm,module' })
    expect(stderr).toContain('commander')
    expect(stderr).not.toContain('node_modules/pg/')
  })
})

describe('invalid arguments', () => {
  test.each([
    [['lok', 'ls'], "unknown command 'lok'", 'Did you mean lock?'],
    [['lock', 'brake', 'x'], "unknown command 'brake'", 'Did you mean break?'],
    [['lease', 'expier', 'x'], "unknown command 'expier'", 'Did you mean expire?'],
    [['jobz', 'ls'], "unknown command 'jobz'", 'Did you mean one of job, jobs?'],
    [['help', 'lok'], "unknown command 'lok'", 'Did you mean lock?'],
    [['help', 'lock', 'brek'], "unknown command 'brek'", 'Did you mean break?'],
    [['queue', 'puase', 'x'], "unknown command 'puase'", 'Did you mean pause?'],
    [['limit', 'ls', '--state', 'fulll'], 'Expected --state to be ', 'Did you mean full?'],
    [['lock', 'ls', '--jsn'], "unknown option '--jsn'", 'Did you mean --json?'],
    [['lock', 'show'], "missing required argument 'name'", 'Add --help to see the commands and options.'],
    [['dev', '--port', '99999'], 'Expected --port to be a whole number between 0 and 65535, got "99999"'],
    [['lock', 'show', ''], 'Expected name to be a string of 1 to 500 characters'],
    [['lock', 'show', '--key', '99999999999999999999'], 'Expected a 64-bit key in decimal'],
    [['lock', 'ls', '--url', 'mysql://h/d'], 'Expected --url to be a URL like'],
  ])('%j is a usage error with a helpful message', async (args, ...complaint) => {
    const { status, stdout, stderr } = await run(args, { DATABASE_URL: database.url })
    expect(stderr.startsWith(`holdfast: ${complaint[0]}`)).toBe(true)
    if (complaint[1]) expect(stderr.split('\n')[1]).toBe(complaint[1])
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })

  test('the error for an invalid value names the variable that the value came from', async () => {
    const { status, stderr } = await run(['limit', 'ls'], { DATABASE_URL: database.url, HOLDFAST_STATE: 'svg' })
    expect(stderr).toContain('Expected HOLDFAST_STATE to be')
    expect(status).toBe(2)
  })

  test('a command without a database shows how to give one', async () => {
    const { status, stderr } = await run(['lock', 'ls'], { DATABASE_URL: '' })
    expect(stderr).toBe('holdfast: No database was given\nSet DATABASE_URL or PGHOST, or give --url.\n')
    expect(status).toBe(2)
  })
})

describe('a database', () => {
  test('a database that cannot be reached makes the command exit with 4', async () => {
    const { status, stderr, stdout } = await run(['lock', 'ls', '--url', nowhere])
    expect(stderr).toContain('holdfast: The database cannot be reached')
    expect({ status, stdout }).toEqual({ status: 4, stdout: '' })
  })

  test('a database without Holdfast makes the command suggest holdfast migrate', async () => {
    const { status, stderr } = await run(['lock', 'ls', '--schema', 'nowhere'], { DATABASE_URL: database.url })
    expect(stderr).toContain('Run `holdfast migrate`')
    expect(status).toBe(1)
  })

  test('a database can be given by PG* variables', async () => {
    const { hostname, port, username, password, pathname } = new URL(database.url)
    const { status, stdout } = await run(['lock', 'ls', '--json'], {
      PGHOST: hostname,
      PGPORT: port,
      PGUSER: decodeURIComponent(username),
      PGPASSWORD: decodeURIComponent(password),
      PGDATABASE: pathname.slice(1),
    })
    expect({ status, stdout }).toEqual({ status: 0, stdout: '[]\n' })
  })

  test('a database on the command line takes precedence over the environment', async () => {
    const { status } = await run(['--url', database.url, 'lock', 'ls'], { DATABASE_URL: nowhere })
    expect(status).toBe(0)
  })
})

test('errors are JSON if --json is given', async () => {
  const { stderr } = await run(['lock', 'ls', '--json', '--url', nowhere])
  expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'DATABASE_UNREACHABLE', retryable: true } })
  const { stderr: masked } = await run(['job', 'show', 'password=s3cret', '--json'])
  expect(JSON.parse(masked)).toMatchObject({
    error: { code: 'USAGE', message: expect.stringContaining('"password=***"') },
  })
})

test('a password is never printed', async () => {
  const wrong = new URL(database.url)
  wrong.password = 's3cret'
  const all = await Promise.all([
    run(['lock', 'ls', '--url', nowhere]),
    run(['lock', 'ls'], { DATABASE_URL: wrong.href }),
    run(['lock', 'run', 'x', '--url', nowhere, '--', 'true']),
    run(['lock', 'ls', '--url', 'postgres://app:s3cret@:::/']),
    run(['lock', 'ls', '--url', 'app:s3cret@host']),
    run([nowhere]),
    run(['lock', 'ls', nowhere]),
    run(['lock', 'ls', `--ulr=${nowhere}`]),
    run(['lock', 'ls', '--json', `--ulr=${nowhere}`]),
    ...['postgres://app:p@s3cret@host/app', "password='my s3cret' user=app", 'password = "my s3cret"'].map((mistyped) =>
      run(['lock', 'ls', '--url', nowhere, '--database', mistyped]),
    ),
  ])
  for (const { status, stdout, stderr } of all) {
    expect(status).not.toBe(null)
    expect(stdout + stderr).not.toContain('s3cret')
  }
})
