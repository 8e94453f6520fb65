import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlSession } from '../setup/facts.js'
import { type ExitResult, run, startOnTerminal } from './program.js'
import { fits, fitsRow } from './schemas.js'

let database: FreshDatabase
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
})
afterAll(() => database.drop())

const doctor = (args: string[] = [], more: NodeJS.ProcessEnv = {}): Promise<ExitResult> =>
  run(['doctor', ...args], { ...env, ...more })

const spoil = () =>
  sql(database.url, 'drop index if exists holdfast.tick_done; alter table holdfast.worker reset (fillfactor)')

test('doctor exits with 0 and shows the number of checks if nothing is wrong', async () => {
  const nothing = 'None of the findings can be fixed with --fix.\n'
  const well = 'Configuration: 11 checks, all well.\nFleet: 5 checks, all well. No instance is running.\n'
  expect(await doctor()).toEqual({ status: 0, stdout: '', stderr: well })
  expect(await doctor(['--fix'])).toEqual({ status: 0, stdout: '', stderr: nothing + well })
  await sql(database.url, 'alter table holdfast.worker reset (fillfactor)')
  expect(await doctor()).toMatchObject({
    status: 0,
    stderr: expect.stringContaining('Configuration: 11 checks, 1 note.\nFleet: 5 checks, all well.'),
  })
})

test('doctor prints its findings as text, JSON and JSON lines and exits with 3', async () => {
  await spoil()
  const [piped, json, lines] = await Promise.all([doctor(), doctor(['--json']), doctor(['--jsonl'])])
  const fixed = "create index concurrently tick_done on holdfast.tick (schedule, at) where state = 'done' and not extra"
  expect(piped).toEqual({
    status: 3,
    stdout:
      `wrong\tindexes-differ\tmissing\tThe index tick_done on tick is missing\t${fixed}\n` +
      'note\tstorage-differs\tworker\tStorage settings of the table worker differ: fillfactor is the default instead of 50\talter table holdfast.worker set (fillfactor = 50)\n',
    stderr:
      'Configuration: 11 checks, 1 wrong, 1 note.\nFleet: 5 checks, all well. No instance is running.\n' +
      'Run `holdfast doctor --fix` to fix 2 of these findings.\n',
  })
  expect(fits('doctor', JSON.parse(json.stdout))).toMatchObject({ checks: 16, fixed: [], findings: [{}, {}] })
  expect(json.status).toBe(3)
  const rows = lines.stdout
    .trimEnd()
    .split('\n')
    .map((line) => fitsRow('doctor', JSON.parse(line)))
  expect(rows).toEqual(JSON.parse(json.stdout).findings)
})

test.runIf(process.platform === 'linux')(
  'doctor groups its findings on a terminal, the worst first, within 80 columns',
  async () => {
    await spoil()
    const { status, stdout } = await startOnTerminal(['doctor'], { ...env, NO_COLOR: '1' }).ended
    const lines = stdout.split('\r\n')
    expect(status).toBe(3)
    expect(lines.filter((line) => /^[A-Z]+$/.test(line))).toEqual(['WRONG', 'NOTE'])
    expect(lines).toContain('  indexes-differ: missing')
    expect(lines).toContain('  found   The index tick_done on tick is missing.')
    expect(lines).toContain('  fix     Create the index. Other sessions can still write. (use --fix to apply)')
    // Lines of SQL may be longer, because users copy them.
    expect(Math.max(...lines.filter((line) => !line.endsWith(';')).map((line) => line.length))).toBeLessThanOrEqual(80)
    expect(stdout).toContain('Configuration: 11 checks, 1 wrong, 1 note.')
  },
)

test('doctor --fix changes nothing without confirmation', async () => {
  await spoil()
  const { status, stdout, stderr } = await doctor(['--fix'])
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr).toContain('This will fix:\n  indexes-differ: missing\n    create index concurrently tick_done')
  expect(stderr).toContain('Nothing was done: fixing must be confirmed')
  const prompt = startOnTerminal(['doctor', '--fix'], env)
  await prompt.says(/Apply these fixes\? \[y\/N\]/)
  prompt.type('no\n')
  expect((await prompt.ended).status).toBe(1)
})

test('doctor --fix fixes the findings and reports which findings remain', { timeout: 60_000 }, async () => {
  await spoil()
  const { status, stdout, stderr } = await doctor(['--fix', '--yes', '--json'])
  expect(fits('doctor', JSON.parse(stdout))).toMatchObject({
    findings: [],
    fixed: [
      { id: 'indexes-differ', subject: 'missing', failure: null },
      { id: 'storage-differs', subject: 'worker', failure: null },
    ],
  })
  expect(stderr).toMatch(
    /Done: indexes-differ: missing\nDone: storage-differs: worker\nConfiguration: 11 checks, all well\.\nFleet: 5 checks, all well\. .*\n$/,
  )
  expect(status).toBe(0)
  // If Holdfast is not installed, --fix installs it and then runs the checks.
  const other = await doctor(['--fix', '--yes', '--schema', 'not there'])
  expect(other.stderr).toBe(
    "This will fix:\n  not-installed\n    holdfast migrate --schema 'not there'\nDone: not-installed\nConfiguration: 11 checks, all well.\nFleet: 5 checks, all well. No instance is running.\n",
  )
})

test.runIf(process.platform === 'linux')('doctor --fix shows the progress of the server on a terminal', async () => {
  await spoil()
  const writer = await sqlSession(database.url)
  await writer.query('begin; lock table holdfast.tick in row exclusive mode')
  const fixing = startOnTerminal(['doctor', '--fix', '--yes'], env)
  await fixing.says(/indexes-differ: missing: waiting for writers before build, 0 of 1 sessions/)
  await writer.query('commit')
  const { status, stdout } = await fixing.ended
  expect(stdout).toContain('\r\x1b[KDone: indexes-differ: missing\r\n')
  expect(status).toBe(0)
})

test('doctor validates its options and also reads them from environment variables', async () => {
  const { status, stderr } = await doctor([], { HOLDFAST_PATIENCE: 'long' })
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: 'holdfast: Expected HOLDFAST_PATIENCE to be a duration of at least 0ms, such as 30s or 5m, got "long"\n',
  })
  const direct = await doctor([], { HOLDFAST_DIRECT_URL: 'postgres://app:s3cret@127.0.0.1:1/app' })
  expect(direct.stdout).toMatch(/^wrong\tdirect-url\t\tThe direct URL does not connect to this database: /)
  expect(direct.stdout + direct.stderr).not.toContain('s3cret')
})
