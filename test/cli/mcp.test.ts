// Tests the MCP server with the official client, on a fleet with typical problems. All tests of reading share one server.
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { actNames } from '../../src/acts/index.js'
import { withoutStatement } from '../../src/cli/mcp/read-tools.js'
import { examine } from '../../src/doctor/index.js'
import { defineJob, Holdfast, version } from '../../src/index.js'
import { openPgPool } from '../../src/postgres/index.js'
import { drain } from '../../src/testing/index.js'
import { type FreshDatabase, freshDatabase } from '../setup/database.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { bin, type Running, start } from './program.js'

const nowhere = 'postgres://app:s3cret@127.0.0.1:1/app'

const closing: (() => Promise<unknown>)[] = []
let database: FreshDatabase
/** `first` and `second` are named web-1 and web-2. `third` waits for a name of `second`. */
let first: Holdfast
let second: Holdfast
let third: Holdfast
let reader: Client
let operator: Client
const ids = { buried: 0, paused: 0, unserved: 0, unhandled: 0, retrying: 0 }

const failing = defineJob('send-email', {
  queue: 'mail',
  retry: { attempts: 1 },
  run: (_: unknown, job) => {
    job.log('connecting')
    throw new TypeError('the mailbox is full')
  },
})
const flaky = defineJob('sync', {
  queue: 'mail',
  retry: { attempts: 5, backoff: '1h' },
  run: () => {
    throw new Error('the other side is down')
  },
})
const report = defineJob('report', { queue: 'reports', run: () => {} })
const resize = defineJob('resize', { queue: 'media', run: () => {} })
const thumbnail = defineJob('thumbnail', { queue: 'media', run: () => {} })
const orphan = defineJob('orphan', { queue: 'nobody', run: () => {} })

/** Connects the official client to a server with these options. */
async function connect(
  args: readonly string[],
  mode: 'legacy' | 'auto',
  url: string = database.url,
): Promise<{ client: Client; transport: StdioClientTransport }> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [bin, 'mcp', ...args],
    env: { PATH: process.env.PATH!, DATABASE_URL: url },
    stderr: 'ignore',
  })
  const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } })
  await client.connect(transport)
  return { client, transport }
}

interface Answer {
  readonly isError: boolean
  // biome-ignore lint/suspicious/noExplicitAny: each tool returns a different document
  readonly document: any
}

async function call(client: Client, name: string, args: object = {}): Promise<Answer> {
  const { content, isError = false } = await client.callTool({ name, arguments: { ...args } })
  const [part] = content as [{ type: 'text'; text: string }]
  return { isError, document: JSON.parse(part.text) }
}

/** Calls a tool of the read-only server that must succeed. */
async function ask(name: string, args: object = {}) {
  const { isError, document } = await call(reader, name, args)
  expect({ name, isError, document }).toMatchObject({ name, isError: false })
  return document
}

beforeAll(async () => {
  database = await freshDatabase()
  const { url } = database
  const opened = await Promise.all(['web-1', 'web-2', 'web-3'].map((name) => Holdfast.open({ url, name, log: false })))
  ;[first, second, third] = opened as [Holdfast, Holdfast, Holdfast]
  closing.push(...opened.map((instance) => () => instance.close()))
  const [readers, operators] = await Promise.all([
    connect([], 'legacy'),
    connect(
      ['--rights', 'retry-job, pause-queue,resume-queue,release-name,cancel-job,cancel-jobs', '--actor', 'ada'],
      'auto',
    ),
  ])
  reader = readers.client
  operator = operators.client
  closing.unshift(
    () => reader.close(),
    () => operator.close(),
  )

  ids.buried = (await first.jobs.enqueue(failing, { to: 'secret@example.com' })).id
  ids.retrying = (await first.jobs.enqueue(flaky, null)).id
  await drain(first, [failing, flaky])
  ids.paused = (await first.jobs.enqueue(report, null)).id
  await first.jobs.pause('reports')
  ids.unserved = (await first.jobs.enqueue(orphan, null)).id
  const worker = first.jobs.work([thumbnail])
  closing.unshift(() => worker.close({ within: 100 }))
  const done = await first.jobs.enqueue(thumbnail, null)
  await until('the thumbnail is done', async () => (await first.jobs.find(done.id))?.state === 'done')
  ids.unhandled = (await first.jobs.enqueue(resize, null)).id

  // web-3 waits for ledger, which web-2 holds. web-2 waits for invoice:42, which web-1 holds.
  await first.locks.acquire('invoice:42')
  await second.locks.acquire('ledger')
  for (const [instance, name] of [
    [second, 'invoice:42'],
    [third, 'ledger'],
  ] as const) {
    instance.locks.acquire(name).catch(() => {})
  }
  await first.leases.acquire('import', { ttl: '1m' })
  await second.limits.acquire('gpu', { max: 2 })
  const schedule = first.schedules.add('nightly', { cron: '0 3 * * *' }, () => {
    throw new RangeError('the disk is full')
  })
  closing.unshift(() => schedule.close({ within: 100 }))
  await until('nightly has a member', async () => (await first.schedules.find('nightly'))?.members.length === 1)
  await first.schedules.run('nightly')
  await until('nightly has failed', async () =>
    (await first.schedules.runs('nightly')).some((past) => past.kind === 'run' && past.state === 'failed'),
  )
  await until('both wait', async () => (await ask('wait-graph')).names.length >= 2)
})

afterAll(async () => {
  for (const close of closing) await close()
  await database.drop()
})

describe('the official client', () => {
  test('connects with initialize, and lists tools with descriptions and schemas, but no acts', async () => {
    expect(reader.getNegotiatedProtocolVersion()).toBe('2025-11-25')
    expect(reader.getServerVersion()).toEqual({ name: 'holdfast', title: 'Holdfast', version })
    expect(reader.getInstructions()).toContain('only reads')
    const { tools } = await reader.listTools()
    expect(tools.length).toBeGreaterThanOrEqual(10)
    for (const { name, title, description, inputSchema, annotations } of tools) {
      expect({ name, title, description, annotations }).toEqual({
        name: expect.stringMatching(/^[a-z-]{3,30}$/),
        title: expect.any(String),
        description: expect.stringMatching(/^.{40,600}$/s),
        annotations: { readOnlyHint: true, openWorldHint: false },
      })
      for (const [param, schema] of Object.entries(inputSchema.properties ?? {}))
        expect({ name, param, schema }).toMatchObject({ schema: { description: expect.stringMatching(/^.{8,}/) } })
    }
    expect(tools.map(({ name }) => name)).not.toContain('retry-job')
  })

  test('connects with version 2026-07-28, and lists the permitted acts', async () => {
    expect(operator.getNegotiatedProtocolVersion()).toBe('2026-07-28')
    const { tools } = await operator.listTools()
    const acts = tools.filter(({ name }) => actNames.some((act) => act === name))
    expect(acts.map(({ name }) => name)).toEqual([
      'retry-job',
      'pause-queue',
      'resume-queue',
      'release-name',
      'cancel-job',
      'cancel-jobs',
    ])
    for (const { annotations, inputSchema } of acts) {
      expect(annotations).toMatchObject({ readOnlyHint: false, destructiveHint: true })
      expect(inputSchema.properties).toHaveProperty('confirm')
    }
  })
})

describe('a question', () => {
  test('wait-graph shows a chain of waits and the command that unblocks it', async () => {
    const { participants, roots, names } = await ask('wait-graph')
    const nameOf = (id: string) => participants.find((one: { id: string }) => one.id === id).instanceName
    expect(names.map(({ label }: { label: string }) => label).sort()).toEqual(['invoice:42', 'ledger'])
    const root = roots.find(({ participant }: { participant: string }) => participant === first.id)
    expect(nameOf(root.participant)).toBe('web-1')
    expect(root.blocks[0].remedies[0]).toBe('holdfast lock release invoice:42')
  })

  test('holders shows the locks, leases and permits of a name', async () => {
    expect(await ask('holders', { name: 'ledger' })).toMatchObject({
      state: 'exclusive',
      holders: [{ instanceName: 'web-2' }],
      waiters: [{ instanceName: 'web-3' }],
    })
    const lease = await ask('holders', { name: 'import' })
    expect(lease).toMatchObject({ state: 'leased', lease: { instanceName: 'web-1' } })
    expect((await ask('holders', { key: lease.key })).lease).toMatchObject({ label: 'import' })
    expect((await ask('holders', { name: 'gpu' })).limit).toMatchObject({
      permits: { inUse: 1, max: 2, holders: [{ instanceName: 'web-2' }] },
    })
  })

  test('job shows why a job waits: a paused queue, a queue without workers, or a kind without a handler', async () => {
    const reasons = [ids.paused, ids.unserved, ids.unhandled, ids.retrying].map(
      async (id) => (await ask('job', { id })).waitsFor,
    )
    expect(await Promise.all(reasons)).toMatchObject([
      { reason: 'pause', text: expect.stringContaining('paused since') },
      { reason: 'worker', unserved: 'queue' },
      { reason: 'worker', unserved: 'kind' },
      { reason: 'attempt' },
    ])
  })

  test('failures shows jobs and runs that failed since yesterday, and jobs that will be retried', async () => {
    const { failures, retrying, isPartial } = await ask('failures', { hours: 24 })
    expect(failures).toContainEqual(
      expect.objectContaining({ kind: 'buried', job: ids.buried, detail: 'send-email: the mailbox is full' }),
    )
    expect(failures).toContainEqual(
      expect.objectContaining({ kind: 'failed', subject: 'nightly', detail: 'the disk is full' }),
    )
    expect(retrying).toMatchObject([{ id: ids.retrying, failed: 1, failure: 'the other side is down' }])
    expect(isPartial).toBe(false)
  })

  test('failures looks back the number of hours that the call specifies', async () => {
    await sql(database.url, "update holdfast.tick set ended_at = now() - interval '5 hours' where state = 'failed'")
    const kinds = async (hours: number) =>
      (await ask('failures', { hours })).failures.map(({ kind }: { kind: string }) => kind)
    expect(await kinds(4)).toEqual(['buried'])
    expect(await kinds(6)).toEqual(['buried', 'failed'])
  })

  test('job shows the attempts and the log of a job, and hides the input unless --payloads is given', async () => {
    const job = await ask('job', { id: ids.buried })
    expect(job).toMatchObject({
      state: 'buried',
      failures: [{ attempt: 1, name: 'TypeError', message: 'the mailbox is full', instanceName: 'web-1' }],
      log: [{ attempt: 1, text: 'connecting' }],
    })
    expect(JSON.stringify(job)).not.toContain('secret@example.com')
    expect(await ask('job', { id: 999_999 })).toMatchObject({
      found: null,
      text: expect.stringContaining('no job 999999'),
    })
  })

  test('jobs finds jobs with a search', async () => {
    const { jobs, next } = await ask('jobs', { search: 'queue:mail state:failed' })
    expect(jobs).toMatchObject([{ id: ids.buried, kind: 'send-email', failure: 'the mailbox is full' }])
    expect(next).toBe(null)
  })

  test('queues shows pauses and workers', async () => {
    const { queues, count } = await ask('queues')
    expect(count).toBe(4)
    const states = queues.map(({ name, pausedAt, workers }: Record<string, unknown>) => [
      name,
      pausedAt !== null,
      workers,
    ])
    expect(states).toEqual([
      ['mail', false, 0],
      ['media', false, 1],
      ['nobody', false, 0],
      ['reports', true, 0],
    ])
  })

  test('job-stats summarizes each kind and each queue', async () => {
    const { kinds, queues, oneOf } = await ask('job-stats', { hours: 1 })
    expect(oneOf).toBe(1)
    const times = { p50Ms: expect.any(Number), p95Ms: expect.any(Number), p99Ms: expect.any(Number) }
    const done = { namespace: 'default', done: 1, failedAttempts: 0, failed: 0, waited: times, took: times }
    expect(queues).toContainEqual({ queue: 'media', ...done })
    expect(kinds[0]).toMatchObject({ done: 0, failed: 1, took: null, lastError: { message: expect.any(String) } })
    const ofMail = await ask('job-stats', { queue: 'mail' })
    expect(ofMail.kinds.every(({ queues }: { queues: string[] }) => queues.includes('mail'))).toBe(true)
    expect(ofMail.kinds.length).toBeLessThan(kinds.length)
  })

  test('changes lists instances, queues, schedules and failed jobs', async () => {
    const { rows } = await ask('changes', { limit: 100 })
    const found = new Set(rows.map(({ kind }: { kind: string }) => kind))
    expect([...found]).toEqual(
      expect.arrayContaining(['instances-joined', 'jobs-failed', 'queue-added', 'schedule-added']),
    )
  })

  test('schedules and schedule show the rule, the next tick and the runs', async () => {
    expect(await ask('schedules')).toMatchObject({ schedules: [{ name: 'nightly' }], count: 1 })
    expect(await ask('schedule', { name: 'nightly' })).toMatchObject({
      nextAt: expect.any(String),
      members: [{ instanceName: 'web-1' }],
      history: [{ state: 'failed', error: { message: 'the disk is full' } }],
    })
    expect((await ask('schedule', { name: 'nightyl' })).text).toContain('nightly')
  })

  test('the tools for limits and instances show permits, processes and their work', async () => {
    expect(await ask('limits')).toMatchObject({ limits: [{ name: 'gpu', inUse: 1, max: 2 }] })
    const { instances } = await ask('instances')
    expect(instances.map(({ name }: { name: string }) => name).sort()).toEqual(['web-1', 'web-2', 'web-3'])
    expect(await ask('instance', { instance: 'web-2' })).toMatchObject({
      holds: [{ label: 'ledger' }],
      waits: [{ label: 'invoice:42' }],
      permits: [{ name: 'gpu' }],
    })
  })

  test('doctor finds the jobs that no worker handles, and overview shows the fleet', async () => {
    const { findings, checks } = await ask('doctor')
    expect(checks).toBeGreaterThan(10)
    expect(findings).toContainEqual(
      expect.objectContaining({ id: 'buried-jobs', subject: expect.stringContaining('mail') }),
    )
    const overview = await ask('overview', { limit: 2 })
    expect(overview).toMatchObject({ counts: { instances: 3, queues: 4, schedules: 1 } })
    expect(overview.queues).toHaveLength(2)
  })
})

test('doctor hides the statements of other sessions', async () => {
  const session = await sqlSession(database.url)
  await session.query('begin isolation level repeatable read')
  await session.query("select 'card 4711'")
  const own = openPgPool({ connectionString: database.url })
  onTestFinished(() => own.close())
  const { findings } = await examine({ database: own, schema: 'holdfast', toleranceMs: 1 })
  const long = findings.filter(({ id }) => id === 'long-transaction')
  expect(JSON.stringify(long)).toContain('card 4711')
  expect(JSON.stringify(long.map(withoutStatement))).not.toContain('card 4711')
})

describe('a mistake', () => {
  test('an invalid argument is a result with an error that explains the correction', async () => {
    const mistakes: [name: string, args: object, message: string][] = [
      ['job', {}, 'Expected id to be a whole number between 1 and'],
      ['job', { id: 'seven' }, 'Expected id to be a whole number between 1 and'],
      ['queues', { namspace: 'x' }, 'did you mean "namespace"?'],
      ['failures', { hours: 0 }, 'Expected hours to be a whole number between 1 and 720'],
      ['jobs', { search: 'stat:buried' }, 'state'],
      ['jobs', { search: 'input.to:ada' }, 'does not show the inputs'],
      ['holders', {}, 'Expected exactly one of name and key, got none'],
      ['limits', { state: 'empty' }, '"full" or'],
    ]
    for (const [name, args, message] of mistakes) {
      const { isError, document } = await call(reader, name, args)
      expect({ name, isError, document }).toMatchObject({ name, isError: true, document: { error: { code: 'USAGE' } } })
      expect(`${document.error.message} ${document.error.hint}`).toContain(message)
    }
  })

  test('an unknown tool is an error of the protocol that suggests a tool', async () => {
    await expect(call(reader, 'queus')).rejects.toThrow(/Unknown tool: "queus".*queues/)
  })

  test('a read-only server refuses every act and changes nothing', async () => {
    for (const name of actNames) {
      const { isError, document } = await call(reader, name, { id: ids.buried, confirm: true, reason: 'because' })
      expect({ isError, document }).toMatchObject({ isError: true, document: { error: { code: 'FORBIDDEN' } } })
      expect(document.error.message).toBe('This server is read-only')
      expect(document.error.hint).toContain(`--rights ${name}`)
    }
    expect((await first.jobs.find(ids.buried))?.state).toBe('buried')
  })
})

describe('an act', () => {
  const entries = () =>
    sql(database.url, 'select visitor, act, subject, reason, outcome, error from holdfast.audit order by id')

  test('changes nothing without confirm and shows the effects, and leaves an audit entry when it runs', async () => {
    const preview = await call(operator, 'retry-job', { id: ids.buried })
    expect(preview).toMatchObject({
      isError: false,
      document: { done: false, preview: { subject: `job ${ids.buried}`, applies: true, dangerous: false } },
    })
    expect(await entries()).toEqual([])
    expect(await call(operator, 'retry-job', { id: ids.buried, confirm: true })).toMatchObject({
      isError: true,
      document: { error: { code: 'USAGE', message: 'Expected a reason, got nothing' } },
    })
    expect((await first.jobs.find(ids.buried))?.state).toBe('buried')

    const reason = 'the mailbox has space again'
    expect(await call(operator, 'retry-job', { id: ids.buried, confirm: true, reason })).toMatchObject({
      isError: false,
      document: { done: true, text: `Job ${ids.buried} can run now.`, result: { retried: [ids.buried] } },
    })
    expect((await first.jobs.find(ids.buried))?.state).toBe('ready')
    const outcome = `Job ${ids.buried} can run now.`
    const entry = { visitor: 'ada', act: 'retry-job', subject: `job ${ids.buried}`, reason, outcome, error: null }
    expect(await entries()).toEqual([entry])
    expect(await ask('audit')).toMatchObject({ actions: [{ visitor: 'ada', act: 'retry-job', reason }] })
  })

  test('an act on many jobs shows how many jobs a search finds, and changes them without listing their IDs', async () => {
    const many = defineJob<unknown>('many', { queue: 'many', run: () => {} })
    await first.jobs.enqueueMany(many, [1, 2, 3])
    const preview = await call(operator, 'cancel-jobs', { search: 'kind:many' })
    expect(preview.document).toMatchObject({
      done: false,
      preview: { subject: '3 jobs', applies: true, dangerous: true },
    })
    const confirmed = { search: 'kind:many', confirm: true, reason: 'asked by a test' }
    expect((await call(operator, 'cancel-jobs', confirmed)).document).toEqual({
      done: true,
      text: '3 jobs cancelled.',
      count: 3,
    })
    expect((await call(operator, 'cancel-jobs', confirmed)).document).toMatchObject({ done: false, count: 0 })
  })

  test('finds a lock by its name and a queue in the default namespace, and stores the reason of a cancellation', async () => {
    const reason = 'asked by a test'
    const resumed = await call(operator, 'resume-queue', { name: 'reports', confirm: true, reason })
    expect(resumed.document).toMatchObject({ done: true, text: 'Resumed "reports".' })
    const released = await call(operator, 'release-name', { name: 'invoice:42' })
    expect(released.document.preview.text).toContain('web-1')
    await call(operator, 'cancel-job', { id: ids.unserved, confirm: true, reason })
    expect(await first.jobs.find(ids.unserved)).toMatchObject({
      state: 'cancelled',
      error: { message: expect.stringContaining('ada') },
    })
  })

  test('is refused if the server has other rights, or if it is called with an invalid parameter', async () => {
    const refused = await call(operator, 'drain-instance', { id: first.id, confirm: true, reason: 'because' })
    expect(refused.document.error).toMatchObject({
      code: 'FORBIDDEN',
      message: 'This server does not have the right drain-instance',
    })
    const mistyped = await call(operator, 'pause-queue', { nme: 'mail' })
    expect(mistyped).toMatchObject({
      isError: true,
      document: { error: { message: expect.stringContaining('"name"') } },
    })
  })
})

describe('the process', () => {
  const request = (id: number, method: string, params: object = {}) =>
    `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
  const linesOf = ({ stdout }: { stdout: string }) =>
    stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line))

  test('reports an unreachable database in each result without the password, answers malformed lines, and ends with stdin', async () => {
    const server = start(['mcp'], { DATABASE_URL: nowhere })
    const meta = (version: string) => ({
      _meta: { 'io.modelcontextprotocol/protocolVersion': version, 'io.modelcontextprotocol/clientCapabilities': {} },
    })
    server.type('this is not JSON\n\n[]\n')
    server.type(request(1, 'tools/call', { name: 'queues' }))
    server.type(request(2, 'tools/call', { name: 'doctor', ...meta('2026-07-28') }))
    server.type(request(3, 'resources/list'))
    server.type(request(4, 'tools/list', meta('2099-01-01')))
    server.type(request(5, 'server/discover'))
    server.type(request(6, 'initialize', { protocolVersion: '1999-01-01' }))
    server.type(request(7, 'initialize', { protocolVersion: '2025-06-18' }))
    server.type(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`)
    server.type(request(8, 'ping'))
    server.process.stdin!.end()
    const ended = await server.ended
    expect(ended).toMatchObject({ status: 0, stderr: expect.stringContaining('(read-only)') })
    expect(`${ended.stdout}${ended.stderr}`).not.toContain('s3cret')
    const answers = linesOf(ended)
    const answerTo = (id: number) => answers.find((answer) => answer.id === id)
    expect(answers.filter(({ id }) => id === undefined).map(({ error }) => error.code)).toEqual([-32700, -32600])
    for (const id of [1, 2]) {
      const { isError, content } = answerTo(id).result
      expect({ isError, ...JSON.parse(content[0].text) }).toMatchObject({
        isError: true,
        error: { code: 'DATABASE_UNREACHABLE', retryable: true },
      })
    }
    expect(answerTo(2).result).toMatchObject({ resultType: 'complete' })
    expect(answerTo(3).error.code).toBe(-32601)
    expect(answerTo(4).error).toMatchObject({
      code: -32022,
      data: { supported: ['2026-07-28'], requested: '2099-01-01' },
    })
    expect(answerTo(5).error.code).toBe(-32602)
    expect(answerTo(6).result.protocolVersion).toBe('2025-11-25')
    expect(answerTo(7).result.protocolVersion).toBe('2025-06-18')
    expect(answerTo(8).result).toEqual({})
    expect(answers).toHaveLength(10)
  })

  test('ends with status 0 on SIGTERM, and leaves no member in the fleet', async () => {
    const server: Running = start(['mcp'], { DATABASE_URL: database.url })
    server.type(request(1, 'tools/call', { name: 'job', arguments: { id: ids.buried } }))
    await server.says(/"id":1/)
    process.kill(server.pid, 'SIGTERM')
    expect(await server.ended).toMatchObject({ status: 0 })
    const members = await sql(database.url, 'select name from holdfast.instance order by name')
    expect(members).toEqual([{ name: 'web-1' }, { name: 'web-2' }, { name: 'web-3' }])
  })

  test('does not start with an unknown right, and suggests the right name', async () => {
    const server = start(['mcp', '--rights', 'retry-jop'], { DATABASE_URL: database.url })
    server.process.stdin!.end()
    expect(await server.ended).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('retry-job') })
  })
})
