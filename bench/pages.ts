// Measures the dashboard's pages on a large database: the server's time for each view, whether the server compiles a statement (JIT), and
// how many statements one open page runs. The server is Debian's PostgreSQL 15, which compiles statements, with its default settings.
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast } from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import pg from 'pg'
import { insertDone } from '../test/setup/done-jobs.ts'
import type { Options } from './measure.ts'
import { benchDatabase, circumstances, describeCircumstances, query } from './server.ts'
import { table } from './table.ts'

const amounts = {
  ended: 1_000_000,
  failed: 50_000,
  waiting: 100_000,
  schedules: 500,
  ticksPerSchedule: 200,
  locks: 2_000,
  instances: 200,
  deliveries: 100_000,
}
const queues = ['mail', 'export', 'invoice', 'sync']
const binDir = ['/usr/lib/postgresql/15/bin'].find(existsSync)
const settings = {
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track': 'top',
  'pg_stat_statements.track_planning': 'on',
  max_connections: '300',
}
const watchMs = 20_000
const times = 3

interface Input {
  readonly user: number
}

interface Subjects {
  readonly key: string
  readonly job: number
  readonly failed: number
  readonly instance: string
  readonly tick: string
}

/** The views that each page shows, with the parameters that the page gives. */
const pagesOf = ({ key, job, failed, instance, tick }: Subjects): Record<string, [view: string, params: object][]> => ({
  Now: [
    ['graph', {}],
    ['overview', {}],
    ['proof', {}],
    ['activity', {}],
    ['trends', { hours: 1 }],
  ],
  Locks: [
    ['names', {}],
    ['hold-timeline', { hours: 1 }],
  ],
  'Locks, one name': [
    ['name', { key }],
    ['terms', { key }],
  ],
  Schedules: [
    ['schedules', {}],
    ['tick-timeline', { minutes: 60, steps: 120 }],
  ],
  'Schedules, one': [
    ['schedule', { namespace: 'default', name: 'schedule 7' }],
    ['tick-timeline', { namespace: 'default', name: 'schedule 7', minutes: 1_440, steps: 120 }],
    ['schedule-run', { namespace: 'default', name: 'schedule 7', tick, extra: false }],
  ],
  Jobs: [
    ['queues', {}],
    ['jobs', {}],
    ['trends', { hours: 1 }],
    ['changes', { hours: 1, marks: true }],
  ],
  'Jobs, trends of 48 hours': [
    ['trends', { hours: 48 }],
    ['changes', { hours: 48, marks: true }],
  ],
  ...Object.fromEntries(
    [
      'state:failed',
      'state:done queue:mail',
      'state:waiting',
      'queue:sync kind:work',
      'state:failed error:smtp',
      'nosuchword',
      'input.user:42',
      String(job),
    ].map((search): [string, [string, object][]] => [`Jobs, "${search}"`, [['jobs', { search }]]]),
  ),
  'Jobs, one done': [['job', { id: job }]],
  'Jobs, one failed': [['job', { id: failed }]],
  Deliveries: [['deliveries', {}]],
  'Deliveries, failed': [['deliveries', { state: 'failed' }]],
  'Deliveries, one': [['delivery', { namespace: 'default', key: 'stripe:77' }]],
  Limits: [['limits', {}]],
  Instances: [
    ['instances', {}],
    ['audit', {}],
  ],
  'Instances, one': [
    ['instances', { search: instance }],
    ['instance', { id: instance }],
  ],
  Changes: [['changes', { hours: 1 }]],
  'Go to (Ctrl K)': [
    ['overview', {}],
    ['schedules', { search: '7' }],
    ['instances', { search: '7' }],
    ['names', { search: '7' }],
  ],
})

export async function run(_: string, { progress }: Options) {
  if (!binDir) return { absent: 'PostgreSQL 15 is not installed (Debian: postgresql-15)' }
  const database = await benchDatabase({ binDir, settings })
  await query(
    database.url,
    "create extension pg_stat_statements; create role watcher superuser login password 'watcher'",
  )
  const fleet: Holdfast[] = []
  const board = dashboard({ url: asWatcher(database.url) })
  const server = createServer((request, response) => board.node(request, response))
  try {
    const subjects = await fill(database.url, fleet, progress)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const views = []
    for (const [page, list] of Object.entries(pagesOf(subjects))) {
      progress(`pages: ${page}`)
      for (const [view, params] of list)
        views.push({ page, view, ...(await measureView(database.url, base, view, params)) })
    }
    const watched = []
    for (const page of ['Now', 'Locks', 'Schedules', 'Jobs', 'Deliveries', 'Limits', 'Instances', 'Changes']) {
      progress(`pages: one watcher of ${page}`)
      watched.push({ page, ...(await measureWatcher(database.url, base, pagesOf(subjects)[page]!)) })
    }
    return { circumstances: await circumstances(database.url, binDir), views, watched }
  } finally {
    server.closeAllConnections()
    server.close()
    await board.close()
    await Promise.all(fleet.map((one) => one.close()))
    await database.close()
  }
}

async function fill(url: string, fleet: Holdfast[], progress: Options['progress']): Promise<Subjects> {
  progress('pages: the fleet')
  const first = await Holdfast.open({ url, log: false })
  fleet.push(first)
  const shared = new pg.Pool({ connectionString: url, max: 20 })
  for (let at = 1; at < amounts.instances; at++) {
    const one = await Holdfast.open({ pool: shared, anchor: 'none', log: false })
    fleet.push(one)
    // An instance without an anchor is recorded when it first needs to be present.
    await one.limits.acquire(`limit ${at}`, { max: 1 })
  }
  progress('pages: locks, schedules and deliveries')
  const names = Array.from({ length: amounts.locks }, (_, at) => `lock ${at}`)
  const locks = await Promise.all(names.map((name) => first.locks.acquire(name)))
  for (let at = 0; at < amounts.schedules; at++) {
    first.schedules.add(`schedule ${at}`, { cron: `${at % 60} * * * *` }, () => {})
  }
  await query(url, deliveries, [amounts.deliveries])
  progress('pages: jobs')
  const failing = defineJob<Input>('fail', {
    queue: 'mail',
    retry: { attempts: 1 },
    run: () => Promise.reject(new Error('smtp is away')),
  })
  const worker = first.jobs.work([failing], { concurrency: 64 })
  const inputs = (count: number): Input[] => Array.from({ length: count }, (_, user) => ({ user }))
  const [failed] = await first.jobs.enqueueMany(failing, inputs(amounts.failed))
  for (const queue of queues) {
    const later = defineJob<Input>('work', { queue, run: () => {} })
    await first.jobs.enqueueMany(later, inputs(amounts.waiting / queues.length), { delay: '1d' })
  }
  await until(async () => (await query(url, stopped))[0].count === amounts.failed)
  await worker.close()
  const [{ base }] = await query(
    url,
    "select setval('holdfast.job_number', nextval('holdfast.job_number') + $1) - $1 as base",
    [amounts.ended],
  )
  await query(url, insertDone(done(Number(base))))
  await until(
    async () =>
      (await query(url, 'select count(*)::integer as count from holdfast.schedule'))[0].count === amounts.schedules,
  )
  await query(url, ticks, [amounts.ticksPerSchedule])
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('vacuum analyze')
  await client.end()
  const [{ tick }] = await query(
    url,
    `select tick.at as tick from holdfast.tick join holdfast.schedule on key = tick.schedule where name = 'schedule 7' order by at limit 1`,
  )
  return {
    key: locks[7]!.keys[0]!,
    job: Number(base) + 500_000,
    failed: failed!.id,
    instance: first.id,
    tick: tick.toISOString(),
  }
}

/** Jobs that have ended within the last week. */
const done = (base: number) => `
  select
    ${base} + n as id,
    (array[${queues.map((queue) => `holdfast.lock_key('default', 'queue/${queue}')`).join()}])[n % ${queues.length} + 1] as queue,
    'work' as kind, json_build_object('user', n) as payload,
    ended - make_interval(secs => 2.5 + random()) as enqueued_at, ended - make_interval(secs => 1.2) as claimed_at, ended as ended_at
  from (
    select n, clock_timestamp() - (${amounts.ended} - n) * interval '7 days' / ${amounts.ended} as ended
    from generate_series(1, ${amounts.ended}) as n
  ) as jobs`

const stopped = 'select count(*)::integer as count from holdfast.job_stopped'

const deliveries = `
insert into holdfast.delivery
  (namespace, key, state, token, session, instance, fence, value, started_at, finished_at, expires_at)
select
  'default', 'stripe:' || n, case when n % 100 = 0 then 'failed' else 'done' end, n, 0, 'earlier', n, '{"ok":true}',
  clock_timestamp() - n * interval '5 seconds', clock_timestamp() - n * interval '5 seconds', clock_timestamp() + interval '30 days'
from generate_series(1, $1::integer) as n`

const ticks = `
insert into holdfast.tick (schedule, at, state, instance, fence, attempt, started_at, ended_at)
select
  key, date_trunc('hour', clock_timestamp()) - n * interval '1 hour', case when n % 50 = 0 then 'failed' else 'done' end,
  'earlier', n, 1, clock_timestamp() - n * interval '1 hour', clock_timestamp() - n * interval '1 hour' + interval '3 seconds'
from holdfast.schedule, generate_series(1, $1::integer) as n
on conflict do nothing`

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await sleep(200)
}

/** PostgreSQL 15 counts the body of a function that the planner evaluates as a statement, although the dashboard did not send it. */
const bodies = '^select (\\$1|\\(pg_catalog\\.parse_ident\\(\\$1\\)\\)\\[\\$2\\])$'

const ofWatcher = `
select
  coalesce(sum(total_exec_time + total_plan_time), 0)::float8 as ms, coalesce(sum(calls) filter (where query !~ '${bodies}'), 0)::integer as statements,
  coalesce(sum(jit_functions), 0)::integer as compiled
from pg_stat_statements where userid = 'watcher'::regrole`

/** The dashboard has a role of its own, so that its statements do not count as the fleet's. */
function asWatcher(url: string): string {
  const own = new URL(url)
  own.username = 'watcher'
  own.password = 'watcher'
  return own.href
}

const requestOf = (view: string, params: object) =>
  `${view}?${Object.entries(params)
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join('&')}`

/** Returns the median of the server's times for one request of a view. */
async function measureView(url: string, base: string, view: string, params: object) {
  const measured = []
  for (let time = 0; time < times; time++) {
    await query(url, 'select pg_stat_statements_reset()')
    const answer = await fetch(`${base}/api/view/${requestOf(view, params)}`)
    const body = await answer.text()
    if (!answer.ok) throw new Error(`${view}: ${body.slice(0, 300)}`)
    measured.push({ ...(await query(url, ofWatcher))[0], bytes: body.length })
  }
  return measured.sort((a, b) => a.ms - b.ms)[Math.floor(times / 2)]!
}

/** Counts the statements of one open page. */
async function measureWatcher(url: string, base: string, list: [view: string, params: object][]) {
  const leaving = new AbortController()
  const requests = list.map(([view, params]) => `view=${encodeURIComponent(requestOf(view, params))}`).join('&')
  const response = await fetch(`${base}/api/live?${requests}`, { signal: leaving.signal })
  await sleep(2_000)
  await query(url, 'select pg_stat_statements_reset()')
  await sleep(watchMs)
  const [{ ms, statements }] = await query(url, ofWatcher)
  leaving.abort()
  await response.body?.cancel().catch(() => {})
  const perSecond = (count: number) => count / (watchMs / 1_000)
  return {
    statementsPerSecond: perSecond(statements),
    msPerSecond: perSecond(ms),
  }
}

const round = (value: number) => Number(value.toPrecision(3))

export function show(report: Awaited<ReturnType<typeof run>>) {
  if ('absent' in report) return `pages: ${report.absent}`
  const { views, watched } = report
  return [
    describeCircumstances(report.circumstances),
    Object.entries(amounts)
      .map(([what, count]) => `${what} ${count.toLocaleString('en')}`)
      .join(', '),
    table(
      ['Page', 'view', 'server ms', 'goal', 'statements', 'compiled', 'kB'],
      views.map((one) => [
        one.page,
        one.view,
        round(one.ms),
        '≤ 1,000',
        one.statements,
        one.compiled,
        round(one.bytes / 1_000),
      ]),
    ),
    table(
      ['One watcher of', 'statements/s', 'goal', 'server ms/s'],
      watched.map((one) => [one.page, round(one.statementsPerSecond), '≤ 2.5', round(one.msPerSecond)]),
    ),
  ].join('\n\n')
}
