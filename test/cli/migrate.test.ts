import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allMigrations, roomFunctions } from '../../src/postgres/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { run, startOnTerminal } from './program.js'
import { fits } from './schemas.js'

let database: FreshDatabase
let client: pg.Client
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  database = await freshDatabase()
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
  env = { DATABASE_URL: database.url }
})
afterAll(async () => {
  await client.end()
  await database.drop()
})

const all = allMigrations('holdfast').map(({ version, name }) => ({ version, name }))
const rooms = roomFunctions('holdfast').map(({ room }) => room)
const listed = [
  ...all.map(({ version, name }) => `${version}\t${name}\n`),
  ...rooms.map((room) => `functions\t${room}\n`),
].join('')

async function schemaExists(schema: string): Promise<boolean> {
  return (await client.query('select to_regnamespace($1) is not null as it', [schema])).rows[0].it
}

test('migrate --check exits with 3 while a migration is pending and with 0 afterwards; --check and --dry-run change nothing', async () => {
  const migrate = (...options: string[]) => run(['migrate', '--schema', 'coordination', ...options], env)
  expect(await migrate('--check')).toMatchObject({ status: 3, stdout: listed })
  expect(await migrate('--dry-run')).toMatchObject({ status: 0, stdout: listed })
  expect(fits('migrate', JSON.parse((await migrate('--dry-run', '--json')).stdout))).toEqual({
    schema: 'coordination',
    version: 0,
    pending: all,
    functions: rooms,
    grants: [],
  })
  expect(await schemaExists('coordination')).toBe(false)

  expect(await migrate()).toMatchObject({ status: 0, stdout: listed })
  expect(await migrate('--check')).toMatchObject({ status: 0, stdout: '' })
  expect(await migrate('--show-sql')).toMatchObject({ status: 0, stdout: '' })
  expect(await migrate()).toEqual({ status: 0, stdout: '', stderr: 'The schema coordination is up to date.\n' })
  const running = await run(['lock', 'run', 'x', '--', 'true'], { ...env, HOLDFAST_SCHEMA: 'coordination' })
  expect(running.status).toBe(0)
})

test('migrate --check exits with 3 if only functions are pending, and migrate applies only the functions that differ', async () => {
  const migrate = (...options: string[]) => run(['migrate', '--schema', 'functions', ...options], env)
  await migrate()
  await client.query("update functions.applied_functions set hash = 'another' where room = 'jobs'")
  expect(await migrate('--check')).toMatchObject({
    status: 3,
    stdout: 'functions\tjobs\n',
    stderr: 'The functions of 1 module to apply to the schema functions.\n',
  })
  const { stdout: script } = await migrate('--show-sql')
  expect(script).toContain('create or replace function "functions".job_claim(')
  expect(script).not.toContain('create table "functions".job')
  expect(await migrate()).toMatchObject({ status: 0, stdout: 'functions\tjobs\n' })
  expect(await migrate('--check')).toMatchObject({ status: 0, stdout: '' })
})

test('migrate --show-sql prints SQL that installs the same schema by hand', async () => {
  const schema = { HOLDFAST_SCHEMA: 'By hand' }
  const { status, stdout } = await run(['migrate', '--show-sql'], { ...env, ...schema })
  expect(status).toBe(0)
  expect(await schemaExists('"By hand"')).toBe(false)
  await client.query(stdout)
  expect((await run(['migrate', '--check'], { ...env, ...schema })).status).toBe(0)
})

test('migrate fails if the schema is newer than this version supports', async () => {
  await run(['migrate'], { ...env, HOLDFAST_SCHEMA: 'future' })
  await client.query("insert into future.migration (version, name, works_from) values (9999, 'later', 9999)")
  for (const options of [[], ['--check'], ['--dry-run']]) {
    const { status, stderr } = await run(['migrate', ...options], { ...env, HOLDFAST_SCHEMA: 'future' })
    expect(stderr).toContain('supports only schema versions up to')
    expect(status).toBe(1)
  }
})

test('migrate exits with 4 after a refused login, and names the server, the user and the database but not the password', async () => {
  const url = new URL(database.url)
  url.password = 'open-sesame'
  const { status, stderr } = await run(['migrate', '--check'], { DATABASE_URL: url.href })
  expect(status).toBe(4)
  expect(stderr).toContain('password authentication failed')
  expect(stderr).toContain(
    `Tried to connect to ${url.host}, as user "${url.username}", database "${url.pathname.slice(1)}".`,
  )
  expect(stderr).not.toContain('open-sesame')
})

test('migrate exits with 4 if the database is unreachable', async () => {
  const { status } = await run(['migrate', '--check', '--url', 'postgres://127.0.0.1:1/x'])
  expect(status).toBe(4)
})

test.runIf(process.platform === 'linux')(
  'migrate shows its progress on a terminal, but not in CI or with NO_COLOR',
  async () => {
    const progress = `1 of ${all.length + 1}: 1 ${all[0]!.name}`
    const onTerminal = async (schema: string, extra: NodeJS.ProcessEnv) =>
      (await startOnTerminal(['migrate', '--schema', schema], { ...env, CI: undefined, ...extra }).ended).stdout
    const [seen, building, plain] = await Promise.all([
      onTerminal('seen', {}),
      onTerminal('building', { CI: 'true' }),
      onTerminal('plain', { NO_COLOR: '1' }),
    ])
    expect(seen).toContain(`\r\x1b[K${progress}`)
    expect(building).not.toContain(progress)
    expect(plain).not.toContain(progress)
  },
)
