import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql } from '../setup/facts.js'
import { type ExitResult, type Running, run, start } from './program.js'

let database: FreshDatabase
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  database = await freshDatabase()
  env = { DATABASE_URL: database.url }
})
afterAll(() => database.drop())

async function databaseNow(): Promise<Date> {
  const [row] = await sql<{ now: Date }>(database.url, 'select clock_timestamp() as now')
  return row!.now
}

/** Returns a rule that ticks once a year, for the first time in `seconds` seconds. No later tick disturbs the test. */
async function tickIn(seconds: number): Promise<{ rule: string; tick: string }> {
  const tick = new Date((await databaseNow()).getTime() + seconds * 1_000)
  tick.setUTCMilliseconds(0)
  const [second, minute, hour] = [tick.getUTCSeconds(), tick.getUTCMinutes(), tick.getUTCHours()]
  const rule = `${second} ${minute} ${hour} ${tick.getUTCDate()} ${tick.getUTCMonth() + 1} *`
  return { rule, tick: tick.toISOString() }
}

/** Returns the environment of a host whose clock is wrong by `hours` hours. */
function hostThatIsWrongBy(hours: number): NodeJS.ProcessEnv {
  const source = `const True = Date; const by = ${hours * 3_600_000}
    globalThis.Date = class extends True {
      constructor(...given) { if (given.length > 0) super(...given); else super(True.now() + by) }
      static now() { return True.now() + by }
    }`
  return { ...env, NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(source)}` }
}

const script = (source: string) => ['--', process.execPath, '-e', source]
const printTick = script('console.log(process.env.HOLDFAST_NAME, process.env.HOLDFAST_TICK)')
const idle = script('console.log("runs", process.env.HOLDFAST_FENCE); setInterval(() => {}, 1e6)')

const words = (rule: string, name: string, ...options: string[]) => ['lock', 'run', '--tick', rule, ...options, name]
const cron = (rule: string, name: string, command: string[], host = env): Promise<ExitResult> =>
  run([...words(rule, name), ...command], host)

async function killAndWait(running: Running): Promise<void> {
  running.killGroup()
  await running.ended
}

test('hosts whose clocks are wrong by hours run a command once per tick', async () => {
  const { rule, tick } = await tickIn(3)
  const hosts = [env, hostThatIsWrongBy(-5), hostThatIsWrongBy(26)]
  // All hosts start before the tick and wait for it. Then one of them runs the command.
  const quick = await Promise.all(hosts.map((host) => cron(rule, 'report', printTick, host)))
  expect((await databaseNow()).getTime()).toBeGreaterThanOrEqual(Date.parse(tick))
  expect(quick.map(({ stdout }) => stdout).join('')).toBe(`report ${tick}\n`)
  // The other hosts find that the command is running or has already run.
  expect(quick.filter(({ status }) => status === 0 || status === 124)).toHaveLength(3)
  // These hosts start after the command has run.
  const late = await Promise.all(hosts.map((host) => cron(rule, 'report', printTick, host)))
  expect(late).toEqual(
    Array(3).fill({ status: 0, stdout: '', stderr: `holdfast: "report" has already run for ${tick}\n` }),
  )
  const silenced = [...words(rule, 'report', '--quiet', '--busy-exit', '9'), ...printTick]
  expect(await run(silenced, env)).toEqual({ status: 9, stdout: '', stderr: '' })
  // Another name has its own ticks, here in another time zone.
  const elsewhere = await run([...words('0 0 * * *', 'zoned', '--timezone', 'Asia/Kathmandu'), ...printTick], env)
  expect(elsewhere.stdout).toMatch(/^zoned \S+T18:15:00.000Z\n$/)
})

test('lock run --tick does not repeat a tick whose command failed, but repeats a tick whose command never started', async () => {
  const failing = [...words('365d', 'fails', '--lease'), ...script('process.exit(3)')]
  expect((await run(failing, env)).status).toBe(3)
  const { status, stderr } = await run(failing, env)
  expect(stderr).toMatch(/^holdfast: "fails" has already run for \S+Z, and exited with 3\n$/)
  expect(status).toBe(0)
  // A command that never started has not run.
  expect((await run([...words('365d', 'missing'), '--', 'no-such-command'], env)).status).toBe(127)
  expect((await run([...words('365d', 'missing'), ...printTick], env)).stdout).toMatch(/^missing /)
})

test('a tick whose host is killed during the run is run again by a waiting host or by a later host', async () => {
  const fenceOf = async (running: Running) => Number((await running.says(/runs (\d+)/))[1])
  const first = start([...words('365d', 'killed'), ...idle], env)
  const fence = await fenceOf(first)
  expect(await cron('365d', 'killed', printTick)).toMatchObject({
    status: 124,
    stdout: '',
    stderr: expect.stringMatching(/^holdfast: "killed" is already running for \S+Z in another process\n$/),
  })
  const second = start([...words('365d', 'killed', '--wait', '30s'), ...idle], env)
  await killAndWait(first)
  expect(await fenceOf(second)).toBeGreaterThan(fence)
  // A run that SIGTERM ends does not count as a run of the tick.
  second.process.kill('SIGTERM')
  expect((await second.ended).status).toBe(143)
  expect((await cron('365d', 'killed', printTick)).stdout).toMatch(/^killed /)
})

test('lock run --tick skips a tick while an earlier run still holds the name, unless --wait is given', async () => {
  const earlier = start(['lock', 'run', 'slow', ...idle], env)
  await earlier.says(/runs/)
  expect(await cron('365d', 'slow', printTick)).toEqual({
    status: 124,
    stdout: '',
    stderr: 'holdfast: "slow" is taken\n',
  })
  const waiting = start([...words('365d', 'slow', '--wait', '30s'), ...printTick], env)
  await killAndWait(earlier)
  expect((await waiting.ended).stdout).toMatch(/^slow /)
})

test('lock run refuses invalid and contradictory tick options before it runs the command', async () => {
  const cases: [string[], RegExp][] = [
    [['--tick', '61 * * * *'], /Expected the minute field of cron to be 0 to 59/],
    [['--timezone', 'UTC'], /Expected --tick together with --timezone/],
    [['--tick', '15m', '--shared'], /Expected --tick or --shared, got both/],
  ]
  for (const [options, message] of cases) {
    const { status, stdout, stderr } = await run(['lock', 'run', ...options, 'wrong', ...printTick], env)
    expect(stderr).toMatch(message)
    expect({ status, stdout }).toEqual({ status: 125, stdout: '' })
  }
})
