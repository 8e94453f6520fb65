// The mistakes of beginners, in a program as a user would run it: what is printed, on which stream, and after how long. The table in
// docs/operating/mistakes.md shows the same.
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type ExitResult, type Running, startProgram } from '../cli/program.js'
import { sql, stays, until } from '../setup/facts.js'
import { databaseUrl, emptyDatabaseUrl } from '../setup/instances.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'

const home = fileURLToPath(new URL('../..', import.meta.url))

/** Starts a program that imports the built package. */
function start(program: string, withinMs = 20_000): Running {
  const running = startProgram(process.execPath, ['--input-type=module', '-'], {}, home, withinMs)
  running.process.stdin!.end(`import { defineJob, Holdfast } from 'holdfast'\n${program}`)
  return running
}

/** The lines of Holdfast's log. */
const logOf = ({ stderr }: { stderr: string }) => stderr.split('\n').filter((line) => line.startsWith('holdfast: '))

/** Asserts that the program ended with an error that Node.js printed to stderr, and returns what was printed. */
async function failsWith(program: string, error: string): Promise<ExitResult> {
  const ended = await start(program).ended
  expect(ended).toMatchObject({ status: 1, stdout: '' })
  expect(ended.stderr).toContain(`\n${error}\n    at `)
  // The caller received the error, so the log does not repeat it.
  expect(logOf(ended)).toEqual([])
  return ended
}

function changed(url: string, change: Partial<URL>): string {
  return Object.assign(new URL(url), change).href
}

test('a handler that throws causes one line for each failed attempt', async () => {
  const program = (options: string) => `
    const holdfast = await Holdfast.open({ url: '${url}'${options} })
    const job = defineJob('send-email', {
      retry: { attempts: 2, backoff: '10ms' },
      run: () => { throw new Error('SMTP timeout\\n  at line 2') },
    })
    holdfast.jobs.work([job])
    const { id } = await holdfast.jobs.enqueue(job, 1)
    await holdfast.jobs.result(id).catch((error) => console.log(error.name))
    await holdfast.close()`
  const url = await databaseUrl()
  const ended = await start(program('')).ended
  expect(ended).toMatchObject({ status: 0, stdout: 'JobFailedError\n' })
  expect(ended.stderr.split('\n')).toEqual([
    expect.stringMatching(
      /^holdfast: job send-email \d+ failed \(attempt 1 of 2, retry in \d+ms\): Error: SMTP timeout at line 2$/,
    ),
    expect.stringMatching(
      /^holdfast: job send-email \d+ was buried \(attempt 2 of 2\): Error: SMTP timeout at line 2$/,
    ),
    '',
  ])
  expect(await start(program(', log: false')).ended).toMatchObject({ status: 0, stderr: '' })
})

test('a kind that no worker handles causes a line within half a minute, even without an anchor', {
  timeout: 90_000,
}, async () => {
  const url = await databaseUrl()
  const from = performance.now()
  const producers = ['required', 'none'].map((anchor) =>
    start(
      `const holdfast = await Holdfast.open({ url: '${url}', anchor: '${anchor}' })
       for (let n = 0; n < 12; n++) await holdfast.jobs.enqueue(defineJob('resize-${anchor}', { queue: 'images', run: () => {} }), n)
       setInterval(() => {}, 1000)`,
      60_000,
    ),
  )
  for (const producer of producers) await until('a line is printed', () => producer.stderr !== '', 45_000)
  expect(performance.now() - from).toBeLessThan(45_000)
  expect(producers.map(({ stderr }) => stderr)).toEqual(
    ['required', 'none'].map((anchor) =>
      expect.stringMatching(
        new RegExp(
          `^holdfast: no worker serves job kind "resize-${anchor}" in queue "images": 12 jobs are waiting, for up to [23]\\ds\n$`,
        ),
      ),
    ),
  )
})

test('a producer that closes does not wait for the check', async () => {
  const from = performance.now()
  const ended = await start(`
    const holdfast = await Holdfast.open({ url: '${await databaseUrl()}' })
    await holdfast.jobs.enqueue(defineJob('resize', { run: () => {} }), 1)
    await holdfast.close()`).ended
  expect(ended).toEqual({ status: 0, stdout: '', stderr: '' })
  expect(performance.now() - from).toBeLessThan(10_000)
})

test('open throws if the host is wrong', async () => {
  const url = changed(await databaseUrl(), { hostname: 'no-such-host.invalid' })
  const { stderr } = await failsWith(
    `await Holdfast.open({ url: '${url}' })`,
    'DatabaseUnreachableError: The database cannot be reached: getaddrinfo ENOTFOUND no-such-host.invalid',
  )
  expect(stderr).toContain("hint: 'Check that the address is correct")
})

test('open throws if the password is wrong, and does not print the password', async () => {
  const url = changed(await databaseUrl(), { password: 'open-sesame' })
  const { username, host } = new URL(url)
  const { stderr } = await failsWith(
    `await Holdfast.open({ url: process.argv[2] ?? '${url}' })`,
    `LoginRefusedError: password authentication failed for user "${username}" (SQLSTATE 28P01)`,
  )
  expect(stderr).toContain(`Tried to connect to ${host}, as user "${username}"`)
  expect(stderr).not.toContain('open-sesame')
})

test('open throws if the environment variable with the URL is not set', async () => {
  const { stderr } = await failsWith(
    'await Holdfast.open({ url: process.env.NOT_SET })',
    'UsageError: Expected exactly one of url, pool and sql, got 0',
  )
  expect(stderr).toContain('Check that the variable is set.')
})

test('open with migrate: false throws if the schema is missing', async () => {
  const { stderr } = await failsWith(
    `await Holdfast.open({ url: '${await emptyDatabaseUrl()}', migrate: false })`,
    'SchemaVersionError: Holdfast is not installed in the schema "holdfast" of this database',
  )
  expect(stderr).toContain("hint: 'Run `holdfast migrate`, or open with migrate: true.'")
})

test('a database that stops causes lines within seconds, and a line when the database is back', {
  timeout: 60_000,
}, async () => {
  const server = await ownServer()
  const running = start(
    `const holdfast = await Holdfast.open({ url: '${await ownDatabase(server)}', expiry: '2s' })
     const job = defineJob('job', { run: () => {} })
     await holdfast.jobs.work([job]).ready()
     await holdfast.locks.acquire('the lock')
     console.log('up')`,
    60_000,
  )
  await running.says(/up/)
  expect(running.stderr).toBe('')
  const from = performance.now()
  await server.restart('immediate')
  await until('the loss is printed', () => running.stderr.includes('session lost'), 10_000)
  expect(performance.now() - from).toBeLessThan(10_000)
  expect(running.stderr).toMatch(
    /^holdfast: lock "the lock" was lost after .*s: DatabaseUnreachableError: The database cannot be reached: /m,
  )
  expect(running.stderr).toMatch(
    /^holdfast: session lost, reconnecting: DatabaseUnreachableError: The database cannot be reached: /m,
  )
  await until('the return is printed', () => running.stderr.includes('session regained'), 30_000)
  expect(running.stderr).toMatch(/^holdfast: session regained after .*s; locks and permits held before are lost$/m)

  await server.stop('immediate')
  await until('the second loss is printed', () => running.stderr.split('session lost').length === 3, 10_000)
  // The workers and the schedules wait for the session, so the log stays short however long the outage lasts.
  await stays('the log is short', () => logOf(running).length < 25, 3_000)
  expect(running.stdout).toBe('up\n')
})

test('an enqueue that is not awaited before close enqueues the job, and nothing is printed', async () => {
  const url = await databaseUrl()
  const ended = await start(`
    const holdfast = await Holdfast.open({ url: '${url}' })
    holdfast.jobs.enqueue(defineJob('forgotten', { run: () => {} }), 1)
    await holdfast.close()`).ended
  expect(ended).toEqual({ status: 0, stdout: '', stderr: '' })
  expect(await sql(url, 'select kind from holdfast.job')).toEqual([{ kind: 'forgotten' }])
})

test('an enqueue that is not awaited and has an invalid input makes Node.js end the process with the error', async () => {
  const { stderr } = await failsWith(
    `const holdfast = await Holdfast.open({ url: '${await databaseUrl()}' })
     holdfast.jobs.enqueue(defineJob('forgotten', { run: () => {} }), new Map())
     await holdfast.close()`,
    'UsageError: Expected an input that JSON can represent, got an object (Map)',
  )
  expect(stderr).toContain("hint: 'Pass plain data:")
})

test('a process without close keeps running with an anchor, ends without an anchor, and prints nothing', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const program = (anchor: string) => `
    const holdfast = await Holdfast.open({ url: '${url}', anchor: '${anchor}' })
    await holdfast.jobs.enqueue(defineJob('job', { run: () => {} }), 1)
    console.log('end of the program')`
  const anchored = start(program('required'), 60_000)
  await anchored.says(/end of the program/)
  // node-postgres closes the idle connections of a pool after 10 seconds.
  expect(await start(program('none')).ended).toEqual({ status: 0, stdout: 'end of the program\n', stderr: '' })
  expect(anchored).toMatchObject({ process: { exitCode: null }, stderr: '' })
})

test('a call with an unknown option throws, and suggests the correct name', async () => {
  await failsWith(
    "await Holdfast.open({ url: 'postgres://localhost/x', expiery: '10s' })",
    'UsageError: Holdfast.open has no option "expiery": did you mean "expiry"?',
  )
})

test('a call with a wrong duration throws, and shows the correct form', async () => {
  const { stderr } = await failsWith(
    "defineJob('job', { timeout: '10 seconds', run: () => {} })",
    'UsageError: Expected timeout to be a duration of at least 1ms and at most 24d, got "10 seconds" (string)',
  )
  expect(stderr).toContain(
    "hint: \"Use a number of milliseconds, or a string such as '250ms', '5s', '1m30s' or '2h'.\"",
  )
})

test('another instance prints a line when it buries a job that kills its workers', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const survivor = start(
    `const holdfast = await Holdfast.open({ url: '${url}', expiry: '2s' })
     await holdfast.jobs.work([defineJob('other', { run: () => {} })]).ready()
     console.log('up')`,
    60_000,
  )
  await survivor.says(/up/)
  const victim = `
    const holdfast = await Holdfast.open({ url: '${url}', expiry: '2s' })
    const job = defineJob('poison', { maxCrashes: 2, run: () => process.kill(process.pid, 'SIGKILL') })
    await holdfast.jobs.enqueue(job, 1, { unique: { key: 'one' } })
    holdfast.jobs.work([job])`
  for (let crashes = 0; crashes < 2; crashes++) {
    // The killed process could not print anything.
    expect(await start(victim).ended).toEqual({ status: null, stdout: '', stderr: '' })
  }
  const from = performance.now()
  await until('a line is printed', () => survivor.stderr !== '', 15_000)
  expect(performance.now() - from).toBeLessThan(15_000)
  const [{ id } = { id: '' }] = await sql<{ id: string }>(
    url,
    "select id from holdfast.job_stopped where state = 'buried'",
  )
  expect(survivor.stderr).toBe(`holdfast: job poison ${id} was buried: 2 of its workers died while running it\n`)
})

test('an event loop that is blocked for longer than the expiry causes lines as soon as the block ends', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const running = start(
    `const holdfast = await Holdfast.open({ url: '${url}', expiry: '2s' })
     const job = defineJob('crunch', {
       run: async (_, { signal }) => {
         for (const until = Date.now() + 5000; Date.now() < until; );
         console.log('unblocked')
         await new Promise((resolve) => setTimeout(resolve, 100))
         signal.throwIfAborted()
       },
     })
     await holdfast.locks.acquire('the lock')
     await holdfast.jobs.enqueue(job, 1)
     holdfast.jobs.work([job])`,
    60_000,
  )
  await running.says(/unblocked/)
  const from = performance.now()
  await until('the loss of the job is printed', () => /job crunch \d+ was lost/.test(running.stderr), 10_000)
  expect(performance.now() - from).toBeLessThan(10_000)
  const why =
    'DatabaseUnreachableError: No response was received for \\S+s, so the server may end the session at any moment\\. ' +
    'The event loop of this process was blocked for at least \\S+s, or the process was suspended'
  for (const line of [
    `lock "the lock" was lost after \\S+s: ${why}`,
    `session lost, reconnecting: ${why}`,
    'job crunch \\d+ was lost after \\S+s: another attempt will start in the fleet',
  ]) {
    expect(logOf(running)).toContainEqual(expect.stringMatching(new RegExp(`^holdfast: ${line}$`)))
  }
})
