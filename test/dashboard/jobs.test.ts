import { expect, test } from 'vitest'
import { z } from 'zod'
import { defineJob } from '../../src/index.js'
import { gate, work } from '../jobs/fixture.js'
import { insertDone } from '../setup/done-jobs.js'
import { sql, sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { runsAll } from '../setup/variants.js'
import { board, serve } from './fixture.js'

// biome-ignore lint/suspicious/noExplicitAny: JSON of any view
type Any = any

test('queues and jobs are shown, searched and acted on', { timeout: 60_000 }, async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'shop' })
  const { jobs } = holdfast
  const end = gate()
  const hold = defineJob<unknown>('hold', { queue: 'mail', run: () => end.opened })
  const fail = defineJob<unknown>('fail', {
    queue: 'mail',
    retry: { attempts: 2, backoff: 1 },
    run: () => Promise.reject(Object.assign(new TypeError('smtp said secret'), { code: 'E_SMTP' })),
  })
  const lane = defineJob<unknown>('lane', { queue: 'mail', lanes: { max: 1 }, run: () => end.opened })
  const plain = defineJob<unknown>('plain', { queue: 'idle', run: () => {} })
  const done = defineJob<unknown>('done', { queue: 'mail', run: () => ({ answer: 42 }) })

  const failed = await jobs.enqueue(fail, { user: 42, secret: 'x' }, { meta: { requestId: 'r-1', token: 'x' } })
  const held = await jobs.enqueue(hold, { user: 1 })
  const finished = await jobs.enqueue(done, { list: [{ name: 'Ann Lee' }] })
  const inLane = [await jobs.enqueue(lane, 1, { lane: 'shop:7' }), await jobs.enqueue(lane, 2, { lane: 'shop:7' })]
  const later = await jobs.enqueue(plain, { user: 42 }, { delay: '1h', meta: { tags: ['billing'] } })
  const first = await jobs.enqueue(plain, 'first')
  const second = await jobs.enqueue(plain, 'second', { after: [first] })
  jobs.work([hold, fail, lane, done], { concurrency: 5 })
  await until('the job runs', async () => (await jobs.find(held.id))?.state === 'running')
  await until('the job is buried', async () => (await jobs.find(failed.id))?.state === 'buried')
  await jobs.result(finished.id)

  const base = await serve(
    board({
      url,
      redact: (payload, { what }) =>
        what === 'job error'
          ? { ...(payload as object), message: 'hidden' }
          : what === 'job input'
            ? { shown: true }
            : what === 'job meta'
              ? { ...(payload as object), token: '…' }
              : payload,
    }),
  )
  const get = async (path: string): Promise<Any> => (await fetch(`${base}/api/view/${path}`)).json()
  const post = async (act: string, params: object, preview = false): Promise<Any> => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ params, ...(preview ? { preview } : {}) })
    return (await fetch(`${base}/api/act/${act}`, { method: 'POST', headers, body })).json()
  }
  const idsOf = async (search: string) => {
    const { data, error } = await get(`jobs?${new URLSearchParams({ search })}`)
    return data ? data.rows.map(({ id }: Any) => id) : error.message
  }

  const { data } = await get('queues?namespace=shop')
  expect(data.rows).toMatchObject([
    { name: 'idle', ready: 1, scheduled: 1, blocked: 1, workers: 0, buried: 0 },
    { name: 'mail', running: 2, parked: 1, buried: 1, workers: 1, pausedAt: null },
  ])
  expect(data.rows[1].perMinute).toMatchObject({ done: 1, buried: 1, enqueued: 5 })

  expect(await idsOf('queue:mail state:failed')).toEqual([failed.id])
  expect(await idsOf('input.user:42 state:waiting')).toEqual([later.id])
  expect((await idsOf('input.user:42')).sort()).toEqual([failed.id, later.id])
  expect(await idsOf('input.list.0.name:"Ann Lee"')).toEqual([finished.id])
  expect((await idsOf('lane:shop:7')).sort()).toEqual(inLane.map(({ id }) => id))
  expect(await idsOf('meta.requestId:r-1')).toEqual([failed.id])
  expect(await idsOf('meta.tags:billing')).toEqual([later.id])
  expect(await idsOf('state:in-lane')).toEqual([inLane[1]!.id])
  expect(await idsOf('state:blocked')).toEqual([second.id])
  expect(await idsOf('state:scheduled')).toEqual([later.id])
  expect(await idsOf('error:"SMTP said"')).toEqual([failed.id])
  expect(await idsOf('smtp since:1h')).toEqual([failed.id])
  expect(await idsOf('smtp until:1h')).toEqual([])
  expect(await idsOf('state:running kind:hold')).toEqual([held.id])
  expect(await idsOf(String(finished.id))).toEqual([finished.id])
  expect(await idsOf('queue:nowhere')).toEqual([])
  expect(await idsOf('state:bury')).toContain('Expected state to be one of running, ready')

  const trends = (await get('trends?namespace=shop&hours=1')).data
  expect(trends.kinds[0]).toMatchObject({
    kind: 'fail',
    failed: 1,
    failedAttempts: 2,
    lastError: { job: failed.id, name: 'TypeError', message: 'hidden' },
  })
  expect(trends.queues).toMatchObject([{ queue: 'mail', done: 1, failedAttempts: 2 }])
  const changes = (await get('changes?namespace=shop')).data.rows
  expect(changes.find(({ kind }: Any) => kind === 'jobs-failed')).toMatchObject({
    text: 'a job of kind fail failed: TypeError: hidden',
    isBad: true,
    job: failed.id,
  })
  expect((await get('changes?namespace=shop&marks=true')).data.rows.map(({ kind }: Any) => kind)).not.toContain(
    'jobs-failed',
  )

  const buried = (await get(`job?id=${failed.id}`)).data.job
  expect(buried).toMatchObject({
    state: 'buried',
    failed: 2,
    input: { shown: true },
    meta: { requestId: 'r-1', token: '…' },
    error: { message: 'hidden' },
    attempts: [
      { attempt: 1, instance: holdfast.id, error: { name: 'TypeError', message: 'hidden', code: 'E_SMTP' } },
      { attempt: 2, instance: holdfast.id },
    ],
  })
  expect((await get(`job?id=${inLane[1]!.id}`)).data.job).toMatchObject({
    lane: 'shop:7',
    waitsFor: { reason: 'lane', running: [{ id: inLane[0]!.id }] },
  })
  expect((await get(`job?id=${second.id}`)).data.job).toMatchObject({
    meta: null,
    waitsFor: { reason: 'jobs' },
    linked: [{ id: first.id }, { id: second.id, after: [first.id] }],
  })
  const listed = (await get('jobs?namespace=shop')).data.rows
  expect(listed.some((job: Any) => 'meta' in job)).toBe(false)
  expect(listed.find(({ id }: Any) => id === second.id).waitReason).toBe(`waiting for job ${first.id} (ready)`)
  expect(listed.find(({ id }: Any) => id === first.id).waitReason).toBe("no worker serves the job's queue")
  expect((await get(`job?id=${first.id}`)).data.job).toMatchObject({
    waitsFor: { reason: 'worker', unserved: 'queue' },
  })
  expect((await get('job?id=999999')).data).toEqual({ job: null })
  expect((await get(`jobs?search=${failed.id}`)).data.rows[0].error.message).toBe('hidden')

  // Each act: its preview, its effect, and a second attempt.
  const of = { namespace: 'shop', name: 'mail' }
  expect((await post('pause-queue', of, true)).consequence.text).toContain('2 running jobs will run')
  expect((await post('pause-queue', of)).outcome.done).toBe(true)
  expect((await post('pause-queue', of)).outcome).toEqual({
    done: true,
    text: '"mail" was already paused. 2 running jobs will run to completion.',
  })
  const search = { search: 'state:failed queue:mail', namespace: 'shop' }
  const { consequence } = await post('retry-jobs', search, true)
  expect(consequence).toMatchObject({
    subject: '1 job',
    dangerous: true,
    facts: [
      ['Kinds', '1 fail'],
      ['States', '1 failed'],
      ['Oldest change', expect.stringContaining('ago')],
      ['Newest change', expect.stringContaining('ago')],
    ],
  })
  expect((await post('retry-jobs', search)).outcome).toEqual({ done: true, text: '1 job retried.', count: 1 })
  expect((await post('retry-jobs', search)).outcome.done).toBe(false)
  expect((await post('discard-jobs', { search: 'state:done' }, true)).consequence).toMatchObject({
    applies: false,
    text: 'Jobs that are done cannot be discarded.',
  })
  expect((await get(`job?id=${failed.id}`)).data.job).toMatchObject({ state: 'ready', waitsFor: { reason: 'pause' } })
  expect((await post('cancel-job', { id: failed.id }, true)).consequence.text).toContain('will not run')
  expect((await post('cancel-job', { id: failed.id })).outcome.text).toBe(`Cancelled job ${failed.id}.`)
  expect((await post('resume-queue', of)).outcome.done).toBe(true)
  expect((await post('retry-job', { id: failed.id }, true)).consequence).toMatchObject({ dangerous: false })
  expect((await post('retry-job', { id: failed.id })).outcome).toEqual({
    done: true,
    text: `Job ${failed.id} can run now.`,
  })
  expect((await post('cancel-job', { id: held.id }, true)).consequence.text).toContain('Asks job')
  expect((await post('cancel-job', { id: held.id })).outcome.text).toContain('to stop')
  expect((await post('cancel-job', { id: first.id }, true)).consequence.text).toContain(
    '1 job that waits for this job will also be cancelled',
  )
  expect((await post('retry-job', { id: later.id }, true)).consequence.text).toMatch(/can run now instead of in 59m/)
  expect((await post('retry-job', { id: finished.id })).outcome).toEqual({
    done: false,
    text: `Job ${finished.id} is already done.`,
  })
  const stepped = defineJob<unknown>('stepped', {
    queue: 'steps',
    run: async (_, job) => {
      await job.step('charge', () => 'a secret')
      return job.event('approved', { within: '1d' })
    },
  })
  const approval = await jobs.enqueue(stepped, null)
  work(holdfast, [stepped])
  await until('the job waits for the event', async () => (await jobs.find(approval.id))?.waitsFor?.reason === 'event')
  expect((await get(`job?id=${approval.id}`)).data.job).toMatchObject({
    waitsFor: { reason: 'event', event: 'approved' },
    stepCount: 2,
    steps: [
      { name: 'charge', kind: 'step', attempt: 1, endedAt: expect.any(String), until: null },
      { name: 'approved', kind: 'event', event: 'approved', endedAt: null, until: expect.any(String) },
    ],
  })
  const sent = { id: approval.id, event: 'approved', data: '{"by":"ada"}' }
  expect((await post('send-event', sent, true)).consequence.text).toContain('waits for this event and continues')
  expect((await post('send-event', sent)).outcome.text).toBe(`Sent the event "approved" to job ${approval.id}.`)
  expect(await jobs.result(approval.id)).toEqual({ by: 'ada' })
  expect((await post('send-event', sent)).outcome).toEqual({
    done: false,
    text: `Job ${approval.id} is already done and receives no more events.`,
  })
  const audit = await sql<{ act: string }>(url, 'select act from holdfast.audit where outcome is not null order by id')
  expect(audit.map(({ act }) => act)).toContain('retry-jobs')
  end.open()
})

test('a job is enqueued by hand with an input that matches the JSON schema of its kind', async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url, namespace: 'shop' })
  const mail = defineJob('mail', { queue: 'post', input: z.object({ to: z.string() }), run: ({ to }) => to })
  // The second schema cannot be converted to a JSON schema.
  const odd = defineJob('odd', { queue: 'post', input: z.transform(String), run: () => {} })
  await work(holdfast, [mail, odd]).ready()
  holdfast.schedules.add('nightly', { cron: '0 3 * * *', job: mail, input: () => ({ to: 'nobody' }) })
  await holdfast.schedules.add('plain', { cron: '0 3 * * *' }, () => {}).ready()
  const base = await serve(board({ url, traceUrl: 'https://traces.example.com/{traceId}' }))
  const get = async (path: string): Promise<Any> =>
    ((await (await fetch(`${base}/api/view/${path}`)).json()) as Any).data
  const post = async (act: string, params: object, preview = false): Promise<Any> => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ params, preview })
    return (await fetch(`${base}/api/act/${act}`, { method: 'POST', headers, body })).json()
  }
  const form = { namespace: 'shop', queue: 'post', kind: 'mail', input: '{"to": "ada@example.com"}' }

  expect(await get('job-kinds?namespace=shop')).toEqual([
    { namespace: 'shop', queue: 'post', kind: 'mail', isServed: true },
    { namespace: 'shop', queue: 'post', kind: 'odd', isServed: true },
  ])
  expect((await get('job-kind?namespace=shop&queue=post&kind=mail')).inputSchema).toMatchObject({ required: ['to'] })
  expect((await get('job-kind?namespace=shop&queue=post&kind=odd')).inputSchema).toBeNull()

  const preview = async (changed: object) => (await post('enqueue-job', { ...form, ...changed }, true)).consequence
  expect((await preview({})).text).toContain('The input matches the JSON schema')
  expect((await preview({ kind: 'odd' })).text).toContain('no JSON schema of the kind is registered')
  expect((await preview({ kind: 'unknown' })).text).toContain('No worker has registered this kind')
  const wrong = 'The input does not match the JSON schema of the kind mail: to: expected a string, got 5.'
  expect(await preview({ input: '{"to": 5}' })).toMatchObject({ applies: false, text: wrong })
  expect((await post('enqueue-job', { ...form, input: '{"to": 5}' })).outcome).toEqual({ done: false, text: wrong })
  expect((await post('enqueue-job', { ...form, input: '{to' })).error.code).toBe('USAGE')

  const { outcome } = await post('enqueue-job', { ...form, priority: 2 })
  expect(outcome).toEqual({ done: true, text: `Enqueued job ${outcome.job}.`, job: outcome.job })
  expect(await holdfast.jobs.result(outcome.job)).toBe('ada@example.com')
  const later = (await post('enqueue-job', { ...form, runAt: '2099-01-01T00:00:00Z' })).outcome.job
  expect(await holdfast.jobs.find(later)).toMatchObject({ state: 'waiting', runAt: new Date('2099-01-01T00:00Z') })

  // A schedule that enqueues a job takes an input, and other schedules do not.
  const nightly = { namespace: 'shop', name: 'nightly', input: '{"to": "eve"}' }
  expect((await get('schedule?namespace=shop&name=nightly')).job).toEqual({ queue: 'post', kind: 'mail' })
  expect((await get('schedule?namespace=shop&name=plain')).job).toBeNull()
  expect((await post('run-schedule', nightly, true)).consequence.text).toContain('No run of the schedule is recorded')
  expect(await holdfast.jobs.result((await post('run-schedule', nightly)).outcome.job)).toBe('eve')
  const refused = { applies: false, text: '"plain" takes no input, because no live instance defines it with a job.' }
  expect((await post('run-schedule', { ...nightly, name: 'plain' }, true)).consequence).toMatchObject(refused)

  // The audit log contains no inputs.
  const [entry] = await sql<{ params: object }>(url, 'select params from holdfast.audit order by id limit 1')
  expect(entry!.params).toEqual({ ...form, input: '9 bytes' })

  await sql(
    url,
    `update holdfast.job set links = '{"trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'`,
  )
  expect((await get(`job?id=${outcome.job}`)).job.trace).toEqual({
    id: '0af7651916cd43dd8448eb211c80319c',
    url: 'https://traces.example.com/0af7651916cd43dd8448eb211c80319c',
  })
  expect(() => board({ url, traceUrl: 'javascript:alert({traceId})' })).toThrow('an http or https URL')
})

test.skipIf(!runsAll)(
  'views of 60,000 ended jobs stay short, and show how many rows they have searched',
  {
    timeout: 120_000,
  },
  async () => {
    const url = await databaseUrl()
    const { jobs } = await open({ url })
    await jobs.enqueue(defineJob<unknown>('mail', { queue: 'post', run: () => {} }), 1)
    const many = 60_000
    const ended = (which: string) => `
    select i as id, holdfast.lock_key('default', 'queue/post') as queue, 'mail' as kind, json_build_object('user', i) as payload,
      now() as enqueued_at, now() as claimed_at, now() as ended_at
    from generate_series(100, ${many}) as i
    where ${which}`
    await sql(url, insertDone(ended('i % 2 = 1')))
    await sql(
      url,
      `insert into holdfast.job_stopped
       (id, queue, kind, payload, enqueued_at, claimed_at, ended_at, priority, state, failed, crashes, max_crashes)
     select *, 0, 'buried', 1, 0, 3 from (${ended('i % 2 = 0')}) as buried`,
    )
    const base = await serve(board({ url }))
    const get = async (path: string): Promise<Any> =>
      ((await (await fetch(`${base}/api/view/${path}`)).json()) as Any).data
    expect((await get('queues')).rows).toMatchObject([{ name: 'post', buried: 10_001 }])
    const first = await get('jobs?search=state:failed')
    expect(first).toMatchObject({ rows: { length: 100 }, next: expect.stringMatching(/^failed:/), searchedRows: null })
    const second = await get(`jobs?${new URLSearchParams({ search: 'state:failed', after: first.next })}`)
    expect(second.rows[0].id).toBe(first.rows.at(-1).id - 2)
    expect(await get('jobs?search=state:failed+input.user:59998')).toMatchObject({
      rows: [{ id: 59_998 }],
      searchedRows: 5_000,
    })
    // The next page continues the search.
    let page = await get('jobs?search=state:failed+input.user:40002')
    expect(page).toMatchObject({ rows: [], searchedRows: 5_000 })
    page = await get(`jobs?${new URLSearchParams({ search: 'state:failed input.user:40002', after: page.next })}`)
    expect(page).toMatchObject({ rows: [{ id: 40_002 }], searchedRows: 5_000 })
    expect(await get('jobs?search=state:done+kind:other')).toMatchObject({ rows: [], searchedRows: 20_000 })
    // An act on many jobs stops after a few seconds, and continues with the parameters that it returned.
    const headers = { 'content-type': 'application/json' }
    const discard = async (next: object): Promise<Any> => {
      const body = JSON.stringify({ params: { search: 'state:failed', ...next }, reason: 'a test' })
      return ((await (await fetch(`${base}/api/act/discard-jobs`, { method: 'POST', headers, body })).json()) as Any)
        .outcome
    }
    let outcome = await discard({})
    let all = outcome.count
    for (; outcome.next; all += outcome.count) outcome = await discard(outcome.next)
    expect(all).toBe(many / 2 - 49)
    expect((await get('queues')).rows).toMatchObject([{ buried: 0, discarded: 10_001 }])
  },
)

test('an input that redact changes in place counts as redacted', async () => {
  const url = await databaseUrl()
  const { jobs } = await open({ url })
  const login = defineJob<object>('login', { run: () => {} })
  const { id } = await jobs.enqueue(login, { user: 'ada', password: 'hunter2' })
  const { id: other } = await jobs.enqueue(login, { user: 'bob' })
  const base = await serve(
    board({
      url,
      redact: (payload) => {
        delete (payload as { password?: string }).password
        return payload
      },
    }),
  )
  const jobOf = async (id: number) => {
    const { data } = (await (await fetch(`${base}/api/view/job?id=${id}`)).json()) as Any
    return data.job
  }
  expect(await jobOf(id)).toMatchObject({ input: { user: 'ada' }, isInputRedacted: true })
  expect(await jobOf(other)).toMatchObject({ input: { user: 'bob' }, isInputRedacted: false })
})

test('the graph names a job that has ended as a blocker only while others wait for its retry', {
  timeout: 60_000,
}, async () => {
  const url = await databaseUrl()
  const holdfast = await open({ url })
  const job = defineJob('job', { run: () => {} })
  const { jobs } = await holdfast.jobs.enqueueWorkflow((workflow) => {
    const first = workflow.add(job, null)
    const second = workflow.add(job, null, { after: [first] })
    workflow.add(job, null, { after: [second] })
  })
  const [first, second, third] = jobs.map(({ id }) => id)
  const base = await serve(board({ url }))
  const graph = async (): Promise<Any> => ((await (await fetch(`${base}/api/view/graph`)).json()) as Any).data
  const sketch = ({ names }: Any) =>
    names.map(({ id, holders, waits }: Any) => {
      const [has, waitsFor] = [holders, waits].map((all: Any[]) => all.map(({ participant }) => participant).join(' '))
      return `${id}: ${has} < ${waitsFor}`
    })
  await until('the graph shows both jobs that are waited for', async () => (await graph()).names.length === 2)
  const seen: Any = await graph()
  // A job that does not run is the holder of its own name.
  expect(sketch(seen).sort()).toEqual([
    `job ${first}: job ${first} < job ${second}`,
    `job ${second}: job ${second} < job ${third}`,
  ])
  expect(seen.names[0].holders[0].remedies).toEqual([{ action: 'inspect', job: first }])

  const releasing = await sqlSession(url)
  await releasing.query("select pg_advisory_lock(holdfast.lock_class('job follow-ups'), 0)")
  work(holdfast, [job])
  await until('the first job is done', async () => (await holdfast.jobs.find(first!))!.state === 'done')
  const after: Any = await until('the graph has been read again', async () => {
    const now: Any = await graph()
    return now.names.length === 1 && now
  })
  expect(sketch(after)).toEqual([`job ${second}: job ${second} < job ${third}`])
  expect(JSON.stringify(after)).not.toContain('"retry"')
})
