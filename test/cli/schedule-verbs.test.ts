import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { defineJob, type Holdfast } from '../../src/index.js'
import { add, gate, untilMember, untilRuns } from '../schedules/fixture.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { run } from './program.js'
import { fits } from './schemas.js'

let database: FreshDatabase
beforeAll(async () => {
  database = await freshDatabase()
})
afterAll(() => database.drop())

let holdfast: Holdfast
let env: NodeJS.ProcessEnv
beforeEach(async () => {
  const namespace = `schedules ${randomBytes(4).toString('hex')}`
  env = { DATABASE_URL: database.url, HOLDFAST_NAMESPACE: namespace }
  holdfast = await open({ url: database.url, namespace })
})

test('schedule ls and schedule show print rules, members and unusual states', async () => {
  expect(await run(['schedule', 'ls'], env)).toEqual({
    status: 0,
    stdout: '',
    stderr: 'There are no schedules in this namespace.\n',
  })
  const gone = add(holdfast, 'gone', { every: '15m' })
  add(holdfast, 'nightly', { cron: '0 3 * * *', timezone: 'Europe/London' })
  add(holdfast, 'once', { at: new Date('2999-01-01T00:00:00Z') })
  for (const name of ['gone', 'nightly', 'once']) await untilMember(holdfast, name)
  await gone.close()
  await holdfast.schedules.override('nightly', { every: '1d' })
  const { stdout } = await run(['schedule', 'ls'], env)
  const lines = stdout
    .replace(/\n$/, '')
    .split('\n')
    .map((line) => line.split('\t'))
  expect(lines.map(([name, rule, , members, state]) => [name, rule, members, state])).toEqual([
    ['gone', 'every 15m', '0', 'orphan'],
    ['nightly', 'every 1d', '1', 'overridden'],
    ['once', 'at 2999-01-01T00:00:00.000Z', '1', ''],
  ])
  await holdfast.schedules.run('once')
  await untilRuns(holdfast, 'once', ['done'])
  const { stdout: shown } = await run(['schedule', 'show', 'once'], env)
  expect(shown).toMatch(/^name\tonce\nstate\tactive\nrule\tat 2999/)
  expect(shown).toMatch(new RegExp(`\nextra run\t\\S+ done by ${holdfast.name}\n$`))
  expect(await run(['schedule', 'show', 'once', '--skipped'], env)).toMatchObject({
    stdout: expect.not.stringContaining('run\t'),
    stderr: 'No tick was skipped.\n',
  })
  await sql(
    database.url,
    `insert into holdfast.gap values
     (holdfast.lock_key('${env.HOLDFAST_NAMESPACE}', 'schedule/once'), '2030-01-01 00:00Z', '2030-01-01 01:00Z', 2, 'missed')`,
  )
  const { stdout: skipped } = await run(['schedule', 'show', 'once', '--skipped'], env)
  expect(skipped.split('\n').slice(-2)).toEqual([
    'gap\t2030-01-01T00:00:00.000Z to 2030-01-01T01:00:00.000Z, 2 ticks: missed',
    '',
  ])
  await sql(database.url, "delete from holdfast.gap where reason = 'missed'")
  const { stdout: nightly } = await run(['schedule', 'show', 'nightly'], env)
  expect(nightly).toContain('\nrule in the code\t0 3 * * * Europe/London\n')
  const json = fits('schedule-show', JSON.parse((await run(['schedule', 'show', 'once', '--json'], env)).stdout))
  fits('schedule-ls', JSON.parse((await run(['schedule', 'ls', '--json'], env)).stdout))
  expect(json).toMatchObject({ name: 'once', history: [{ kind: 'run', extra: true, state: 'done' }] })
})

test('schedule set creates a stored schedule, schedule ls finds it, and schedule rm removes it', async () => {
  const set = (...more: string[]) =>
    run(['schedule', 'set', 'tenant:42', 'mail', 'send', '{"tenant":42}', '--every', '1h', ...more], env)
  expect(await set()).toMatchObject({ status: 0, stderr: 'The schedule "tenant:42" is created.\n' })
  expect(fits('schedule-set', JSON.parse((await set('--json')).stdout))).toEqual({
    schedule: 'tenant:42',
    outcome: 'unchanged',
  })
  expect(await set('--overlap', 'queue')).toMatchObject({ status: 2 })
  const { stdout } = await run(['schedule', 'ls', '--search', 'tenant', '--json'], env)
  expect(fits('schedule-ls', JSON.parse(stdout))).toMatchObject([
    { name: 'tenant:42', job: { queue: 'mail', kind: 'send', input: { tenant: 42 } } },
  ])
  const { stderr } = await run(['schedule', 'ls', '--search', 'tenant', '--limit', '1'], env)
  expect(stderr).toBe('Only the first 1 schedules are shown. Use --limit to show more, or --after to continue.\n')
  const { stdout: removed } = await run(['schedule', 'rm', 'tenant:42', '--json'], env)
  expect(fits('schedule-rm', JSON.parse(removed))).toEqual({ removed: 'tenant:42' })
  expect(await run(['schedule', 'ls', '--search', 'tenant'], env)).toMatchObject({
    stderr: 'There are no such schedules in this namespace.\n',
  })
})

test('schedule ls, schedule show and top mark a rule that a newer version has written', async () => {
  add(holdfast, 'moons', { every: '7d' })
  await untilMember(holdfast, 'moons')
  await sql(database.url, `update holdfast.schedule set rule = '{"moon":"full"}' where namespace = $1`, [
    holdfast.namespace,
  ])
  const [listed, shown, top, json] = await Promise.all(
    [['schedule', 'ls'], ['schedule', 'show', 'moons'], ['top'], ['top', '--json']].map((args) => run(args, env)),
  )
  expect(listed!.stdout).toContain('moons\ta rule from a newer version\t')
  expect(shown!.stdout).toContain('\nrule\ta rule from a newer version\n')
  expect(top!.stdout).toMatch(/\nmoons .* a rule from a newer version /)
  expect(fits('top', JSON.parse(json!.stdout))).toMatchObject({ schedules: [{ name: 'moons', rule: null }] })
})

test('schedule run requests a run, and reports when no run is allowed', async () => {
  const end = gate()
  add(holdfast, 'asked', { every: '7d' }, () => end.opened)
  await untilMember(holdfast, 'asked')
  const { status, stderr } = await run(['schedule', 'run', 'asked'], env)
  expect(stderr).toMatch(/^Requested a run of "asked" \(\S+Z\)\. A member will start the run\.\n$/)
  expect(status).toBe(0)
  await untilRuns(holdfast, 'asked', ['running'])
  expect(await run(['schedule', 'run', 'asked', '--json'], env)).toEqual({
    status: 3,
    stdout: '{\n  "tick": null\n}\n',
    stderr:
      'No run of "asked" was requested, because another run exists and the overlap policy does not allow a second run.\n',
  })
  end.open()
})

test('schedule run --input enqueues the job of the schedule with this input, and records no run', async () => {
  const report = defineJob<{ day: string }>('report', { queue: 'reports' })
  await holdfast.schedules.add('nightly', { every: '7d', job: report, input: () => ({ day: 'a tick' }) }).ready()
  const args = ['schedule', 'run', 'nightly', '--input', '{"day": "2030-01-31"}', '--json']
  const { stdout, stderr } = await run(args, env)
  const { job, tick } = fits('schedule-run', JSON.parse(stdout)) as { job: number; tick: null }
  expect(stderr).toBe(
    `Enqueued job ${job}. No worker has registered this kind in the queue "reports" of the namespace "${holdfast.namespace}", so the job may wait forever.\n`,
  )
  expect(tick).toBeNull()
  expect(await holdfast.jobs.find(job)).toMatchObject({
    kind: 'report',
    queue: 'reports',
    input: { day: '2030-01-31' },
  })
  expect(await holdfast.schedules.runs('nightly')).toEqual([])
})

test('schedule pause and schedule resume change the state of a schedule and report it', async () => {
  add(holdfast, 'paused', { every: '7d' })
  await untilMember(holdfast, 'paused')
  const stderrOf = async (verb: string) => (await run(['schedule', verb, 'paused'], env)).stderr
  expect(await stderrOf('pause')).toBe('Paused "paused". Its ticks will not run until the schedule is resumed.\n')
  expect(await stderrOf('pause')).toBe('"paused" was already paused.\n')
  expect((await holdfast.schedules.find('paused'))!.pausedAt).toBeInstanceOf(Date)
  const { stdout } = await run(['schedule', 'show', 'paused'], env)
  expect(stdout).toContain('\nstate\tpaused: ticks will not run until the schedule is resumed\n')
  expect(await stderrOf('resume')).toMatch(/^Resumed "paused": its next tick is at \S+ \S+ UTC\.\n$/)
  expect(await run(['schedule', 'resume', 'paused'], env)).toEqual({
    status: 3,
    stdout: '',
    stderr: '"paused" is not paused.\n',
  })
})

test('schedule override replaces the rule across deployments until the override is cleared', async () => {
  const deployed = add(holdfast, 'invoices', { every: '15m' })
  await untilMember(holdfast, 'invoices')
  const override = (...words: string[]) => run(['schedule', 'override', 'invoices', ...words], env)
  expect((await override('--cron', '0 6 * * MON', '--timezone', 'Europe/London')).stderr).toBe(
    '"invoices" now follows the rule 0 6 * * MON Europe/London until the override is cleared, even after a deployment (rule in the code: every 15m).\n',
  )
  await deployed.close()
  add(holdfast, 'invoices', { every: '30m' })
  await until(
    'the new rule is deployed',
    async () => (await holdfast.schedules.find('invoices'))!.codeRule.everyMs === 1_800_000,
  )
  await holdfast.schedules.pause('invoices')
  const { stdout } = await run(['schedule', 'ls'], env)
  expect(stdout).toMatch(/^invoices\t0 6 \* \* MON Europe\/London\t\t1\tpaused, overridden\n$/)
  const { stdout: shown } = await run(['schedule', 'show', 'invoices'], env)
  expect(shown).toContain('\nstate\toverridden: an operator has replaced the rule in the code\n')
  expect(shown).toContain('\nrule in the code\tevery 30m\n')
  const cleared = await override('--clear', '--json')
  expect(cleared.stderr).toBe('"invoices" follows the rule in the code again: every 30m.\n')
  expect(fits('schedule-override', JSON.parse(cleared.stdout))).toEqual({
    schedule: 'invoices',
    rule: { everyMs: 1_800_000 },
    overridden: false,
  })
  expect((await override('--clear')).status).toBe(3)
  expect((await override()).stderr).toMatch(
    /^holdfast: Expected a rule \(--cron or --every\) or --clear, got neither\n/,
  )
  expect((await override('--cron', '99 * * * *')).status).toBe(2)
})

test.each(['show', 'run', 'pause', 'resume'])(
  'schedule %s of an unknown name suggests a similar name, or the namespace that has a schedule with the name',
  async (verb) => {
    add(holdfast, 'nightly', { every: '7d' })
    await untilMember(holdfast, 'nightly')
    expect(await run(['schedule', verb, 'nigthly'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: `There is no schedule "nigthly" in the namespace "${holdfast.namespace}". Did you mean "nightly"?\n`,
    })
    const { namespace } = holdfast
    const unique = `only in ${namespace}`
    add(holdfast, unique, { every: '7d' })
    await untilMember(holdfast, unique)
    expect(await run(['schedule', verb, unique, '--namespace', 'elsewhere'], env)).toEqual({
      status: 3,
      stdout: '',
      stderr: `There is no schedule "${unique}" in the namespace "elsewhere". A schedule with this name exists in the namespace "${namespace}". Add, for example, --namespace '${namespace}'.\n`,
    })
  },
)
