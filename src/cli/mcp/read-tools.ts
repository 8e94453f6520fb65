import { noSuchInstance, noSuchJob, noSuchSchedule } from '../../acts/index.js'
import { checkName, hashedKey, UsageError } from '../../base/index.js'
import { examine, type Finding } from '../../doctor/index.js'
import { limitStates, noRates, type ObservedJob } from '../../observe/index.js'
import { readJobSearch, searchStates } from '../../search/index.js'
import { graphDocument } from '../graph/document.js'
import { instanceDocument } from '../instance/show.js'
import { limitDocument } from '../limit/show.js'
import { lockDocument } from '../lock/show.js'
import { scheduleDocument } from '../schedule/show.js'
import type { McpContext } from './context.js'
import { readTool, type Tool } from './tool.js'

const limit = { number: [1, 200] } as const
const defaultLimit = 25
const hourMs = 3_600_000

const overview = readTool('overview', {
  title: 'State of the fleet',
  description:
    'Start here. Shows the number of instances, locks, leases, schedules and queues, and one row for each of them, with rates and latencies ' +
    'of the last minute. `trouble` lists dead instances and the failures of the last hour.',
  params: { namespace: 'text', limit },
  async read(context, { limit = defaultLimit, ...given }) {
    const found = await context.observer.overview({ namespace: context.listed(given) })
    const lists = ['instances', 'locks', 'leases', 'schedules', 'queues', 'trouble'] as const
    return { ...found, ...Object.fromEntries(lists.map((list) => [list, found[list].slice(0, limit)])) }
  },
})

const failures = readTool('failures', {
  title: 'What failed',
  description:
    'Lists what failed in the last hours: buried jobs (dead letters), failed and missing runs of schedules, lost leases, dead and reconnected ' +
    'instances, failed deliveries, and the jobs that have failed and wait for another attempt. Use the job tool for the errors of one job.',
  params: { hours: { number: [1, 720] }, namespace: 'text', limit },
  texts: { hours: 'Number of hours to look back. Default 24.' },
  async read(context, { hours = 24, limit = defaultLimit, ...given }) {
    const { observer } = context
    const namespace = context.listed(given)
    const wanted = { withinMs: hours * hourMs, perSubject: limit, limit }
    const { at, trouble } = await observer.overview({ namespace, trouble: wanted })
    const since = new Date(at.getTime() - hours * hourMs)
    const retrying = await observer.jobs.search({ states: ['waiting'], waits: ['attempt'] }, { namespace, limit })
    const deliveries = await observer.deliveries.search({ namespace, states: ['failed', 'lost'], limit })
    return {
      since,
      failures: trouble,
      retrying: retrying.rows.map((job) => withoutPayload(context, job)),
      deliveries: deliveries.rows.filter(({ startedAt, finishedAt }) => (finishedAt ?? startedAt) >= since),
      isPartial: trouble.length >= limit || retrying.next !== null || deliveries.rows.length >= limit,
    }
  },
})

const waitGraph = readTool('wait-graph', {
  title: 'Who waits for whom',
  description:
    'Shows which instances, sessions and jobs wait for which names (locks, leases, elections, limits, lanes, budgets, jobs), and who holds these names. ' +
    '`roots` are the participants that block others and do not wait themselves, with commands that unblock the others. `cycles` are deadlocks.',
  params: { namespace: 'text' },
  async read(context, given) {
    return graphDocument(await context.observer.graph({ namespace: context.listed(given) }), context.schema)
  },
})

const holders = readTool('holders', {
  title: 'Who holds a name',
  description:
    'Shows the holders and waiters of one name: the sessions that hold the lock, the lease, and the permits and rate of a limit with this name. ' +
    'For the leader of an election, pass election/NAME. Returns the 64-bit `key`, which identifies names that are not registered.',
  params: { name: 'text', key: 'key', namespace: 'text', limit },
  texts: {
    name: 'The name. Required, unless key is given.',
    key: '64-bit key in decimal, for a name that is not registered.',
  },
  async read(context, { name, key, limit = defaultLimit, ...given }) {
    if ((name === undefined) === (key === undefined)) {
      throw new UsageError(`Expected exactly one of name and key, got ${name === undefined ? 'none' : 'both'}`)
    }
    const namespace = context.named(given)
    if (name === undefined) {
      const target = { key: key!, label: `key ${key}`, namespace: null }
      return { ...(await lockDocument(context.observer, target)), limit: null }
    }
    const lock = await lockDocument(context.observer, hashedKey(namespace, checkName(name)))
    return { ...lock, limit: await limitDocument(context.observer, namespace, name, limit) }
  },
})

const jobs = readTool('jobs', {
  title: 'Search for jobs',
  description:
    'Lists jobs: running, failed, ready in queue order, waiting, then the other ended jobs. `waitReason` shows why a job does not run. ' +
    'The search has terms such as queue:mail kind:send-email state:failed error:timeout since:1h lane:shop-7 id:17. A word without a keyword ' +
    `is searched for in kinds, queues and errors. States are ${searchStates.join(', ')}; waiting includes the four states before it. ` +
    'If `next` is not null, there may be more jobs: pass `next` as `after`.',
  params: { search: 'text', namespace: 'text', limit, after: 'text' },
  texts: {
    search: 'Terms that a job must match, such as: queue:mail state:failed since:1h',
    after: 'Value of next in the previous result.',
  },
  async read(context, { search = '', limit = defaultLimit, after, ...given }) {
    const parsed = readJobSearch(search)
    if (!context.showsPayloads && parsed.input.length + parsed.meta.length > 0) {
      throw new UsageError(
        'This server does not show the inputs and metas of jobs, so a search cannot use them',
        'Ask the user to start the server with --payloads.',
      )
    }
    const { rows, ...found } = await context.observer.jobs.search(parsed, {
      namespace: context.listed(given),
      limit,
      after,
    })
    return { jobs: rows.map((job) => withoutPayload(context, job)), ...found }
  },
})

const job = readTool('job', {
  title: 'One job and its history',
  description:
    'Shows one job: its state, why it waits (`waitsFor`), its attempts with their errors and stack traces, its progress and its log.',
  needs: { id: 'id' },
  texts: { id: 'ID of the job.' },
  async read(context, { id }) {
    const found = await context.asMember(context.named({}), ({ jobs }) => jobs.find(id))
    if (!found) return missing(noSuchJob(id))
    if (context.showsPayloads) return found
    const { input: _, meta: __, result: ___, log, ...shown } = found
    return {
      ...shown,
      log: log.map(({ data: _, ...line }) => line),
      hidden: 'input, meta, result and the data of log lines (shown only if the server was started with --payloads)',
    }
  },
})

const jobStats = readTool('job-stats', {
  title: 'What jobs did, and what failed',
  description:
    'Shows, for each kind and each queue, the jobs of the last hours: how many are done, how many attempts failed, how many jobs failed ' +
    'permanently, how long jobs waited and ran, and the last error of each kind. The kinds with the most failed jobs come first. ' +
    'If `isEstimated` is true, the counts are estimates.',
  params: { queue: 'text', kind: 'text', hours: { number: [1, 48] }, namespace: 'text' },
  texts: {
    queue: 'Name of a queue. Selects the kinds in this queue.',
    kind: 'Kind of jobs. Selects the queues with this kind.',
    hours: 'Number of hours. Default 3.',
  },
  async read(context, { queue, kind, hours, ...given }) {
    const found = await context.observer.trends({ namespace: context.listed(given), queue, kind, hours })
    const { from, until, isEstimated, oneOf, kinds, queues } = found
    return { from, until, isEstimated, oneOf, kinds, queues }
  },
})

const changes = readTool('changes', {
  title: 'What has changed',
  description:
    'Lists what has changed in the last hours, latest first: instances that joined, closed, were drained or were lost, deployments, new ' +
    'leaders, schedules and queues that were added, changed or paused, failed jobs and runs, and acts of operators.',
  params: { hours: { number: [1, 48] }, namespace: 'text', limit },
  texts: { hours: 'Number of hours. Default 1.' },
  async read(context, { hours, limit = defaultLimit, ...given }) {
    return context.observer.changes({ namespace: context.listed(given), hours, limit })
  },
})

const queues = readTool('queues', {
  title: 'Queues',
  description:
    'Lists queues with the number of jobs in each state, the number of workers, the start of a pause, and the rates of the last minute. A queue ' +
    'with ready jobs does not make progress if it is paused or has no workers.',
  params: { queue: 'text', namespace: 'text', limit },
  texts: { queue: 'Name of one queue.' },
  async read(context, { queue, limit = defaultLimit, ...given }) {
    const { rows, count } = await context.observer.jobs.queues({ namespace: context.listed(given), queue, limit })
    const rates = await context.observer.jobs.rates()
    return { queues: rows.map((row) => ({ ...row, perMinute: rates.get(row.key) ?? noRates })), count }
  },
})

const schedules = readTool('schedules', {
  title: 'Schedules',
  description:
    'Lists schedules (cron jobs) with their rules, their next ticks, their members, their pauses and their last runs.',
  params: { search: 'text', namespace: 'text', limit },
  texts: { search: 'Text that the name must contain.' },
  async read(context, { search, limit = defaultLimit, ...given }) {
    const { rows, count } = await context.observer.schedules.list({ namespace: context.listed(given), search, limit })
    return { schedules: rows, count }
  },
})

const schedule = readTool('schedule', {
  title: 'One schedule and its ticks',
  description:
    'Shows one schedule: its rule, its members, its next tick, and its latest runs and gaps (ticks without a run), with errors and reasons.',
  needs: { name: 'text' },
  params: { namespace: 'text', limit },
  texts: { name: 'Name of the schedule.' },
  async read(context, { name, limit = defaultLimit, ...given }) {
    const namespace = context.named(given)
    const found = await context.asMember(namespace, ({ schedules }) =>
      scheduleDocument(schedules, checkName(name), limit),
    )
    return found ?? missing(await noSuchSchedule(context.observer, namespace, name))
  },
})

const limits = readTool('limits', {
  title: 'Limits and rates',
  description:
    'Lists concurrency limits whose permits are in use, and rate limits that are spent. Use the holders tool for the holders of one limit.',
  params: { prefix: 'text', state: { oneOf: limitStates }, namespace: 'text', limit },
  texts: { prefix: 'Start of the name.', state: 'State of the limit. Default: full, used and spent.' },
  async read(context, { prefix, state, limit = defaultLimit, ...given }) {
    const states = state === undefined ? {} : { states: [state] }
    const found = await context.observer.limits.list({ namespace: context.listed(given), prefix, limit, ...states })
    return { limits: found, hasMore: found.length >= limit || (await context.observer.limits.hasMore()) }
  },
})

const instances = readTool('instances', {
  title: 'Instances',
  description:
    'Lists the processes of the fleet: alive, draining or dead, with their hosts, versions, and numbers of locks, waits, leases and workers.',
  params: { search: 'text', namespace: 'text', limit },
  texts: { search: 'Text that the name, the ID or the host must contain.' },
  async read(context, { search, limit = defaultLimit, ...given }) {
    const { rows, count } = await context.observer.fleet.list({ namespace: context.listed(given), search, limit })
    return { instances: rows, count }
  },
})

const instance = readTool('instance', {
  title: 'One instance and its work',
  description: 'Shows one process, and everything that it holds, waits for or is running.',
  needs: { instance: 'text' },
  params: { namespace: 'text' },
  texts: { instance: 'ID or name of the instance.' },
  async read(context, { instance, ...given }) {
    const found = await instanceDocument(context.observer, instance, context.listed(given))
    return found ?? missing(await noSuchInstance(context.observer, instance))
  },
})

const doctor = readTool('doctor', {
  title: 'What is wrong',
  description:
    'Checks the connection, the settings of the database, the schema and the fleet. Each finding says why it matters and how to fix it. Takes ' +
    'about a second. Finds, for example, jobs of a kind that no worker handles, paused queues, long transactions, and missing rights.',
  async read({ database, direct, schema, showsPayloads }) {
    const diagnosis = await examine({ database, direct, schema })
    return showsPayloads ? diagnosis : { ...diagnosis, findings: diagnosis.findings.map(withoutStatement) }
  },
})

/** Removes the statement of a session, because its text can contain data. */
export function withoutStatement(finding: Finding): Finding {
  const { query, ...facts } = finding.facts
  if (typeof query !== 'string' || query === '') return finding
  const hidden = 'hidden (shown only if the server was started with --payloads)'
  return { ...finding, text: finding.text.replace(query, hidden), facts: { ...facts, query: hidden } }
}

const audit = readTool('audit', {
  title: 'Actions of people and assistants',
  description:
    'Lists the latest actions that ran through the dashboard or an MCP server: who paused, cancelled or drained what, when and why.',
  params: { limit },
  read: async (context, { limit = defaultLimit }) => ({ actions: await context.audit.latest(limit) }),
})

/** Tools that read, in the order in which clients list them. */
export const readTools: readonly Tool[] = [
  ...[
    overview,
    failures,
    waitGraph,
    holders,
    jobs,
    job,
    jobStats,
    changes,
    queues,
    schedules,
    schedule,
    limits,
    instances,
    instance,
  ],
  ...[doctor, audit],
]

/** Tools that run without an up-to-date schema. The doctor reports such a schema. */
export const toolsWithoutSchema: readonly Tool[] = [doctor]

function withoutPayload({ showsPayloads }: McpContext, job: ObservedJob): Omit<ObservedJob, 'meta'> {
  if (showsPayloads) return job
  const { meta: _, ...shown } = job
  return shown
}

function missing(text: string) {
  return { found: null, text }
}
