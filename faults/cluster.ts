// A run of the fault suite. The run starts a server, a pooler and a fleet, injects the plan's faults, and waits until
// the fleet has finished its work. Then the judge checks the processes' histories and the tables.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, SessionLocksUnavailableError } from 'holdfast'
import { type EmbeddedServer, startEmbedded } from 'holdfast/embedded'
import pg from 'pg'
import { type Checked, check, type Query } from './check/index.ts'
import { type Database, openEmbedded, openPatroni, urlOf } from './database.ts'
import { type InstanceOptions, Member } from './fleet.ts'
import { readHistory, type Write, writeHistory } from './history.ts'
import { changeLeaders } from './leaders.ts'
import { type Load, loadSettings, measureLoad } from './load.ts'
import { faults } from './nemesis.ts'
import { Network } from './network.ts'
import { maxNotificationMs } from './notification.ts'
import { type PlanOptions, planOf, type Step } from './plan.ts'
import { type Pause, upgrade } from './upgrade.ts'
import { rules } from './work/schedules.ts'
import { storedNames } from './work/stored.ts'

const tables = `
create table ledger (id bigint generated always as identity, what text, fence bigint, holder text);
create table effect (what text, id text, by text, fence bigint);
create table started (id bigint, fence bigint);
create table at_commit (id integer unique deferrable initially deferred);
create table begun (id bigint, claimed_at timestamptz);
create index on effect (what, id)`

const settings = { deadlock_timeout: '200ms', log_min_messages: 'fatal' }
const minConnections = 150
/** Connections per instance, for fleets of many instances. */
const connectionsPerInstance = 8
/** Settings for a logical replication that copies many tables at the same time. */
const replicationSettings = {
  wal_level: 'logical',
  max_replication_slots: '20',
  max_wal_senders: '20',
  max_worker_processes: '20',
  max_logical_replication_workers: '18',
  max_sync_workers_per_subscription: '16',
}

/** Configurations of the members: node-postgres or postgres.js, with an anchor, without an anchor, or through a pooler. */
const configurations: (Pick<InstanceOptions, 'driver' | 'anchor'> & { pooled?: boolean })[] = [
  { driver: 'pg', anchor: 'required' },
  { driver: 'postgres.js', anchor: 'required' },
  { driver: 'pg', anchor: 'required' },
  { driver: 'pg', anchor: 'none', pooled: true },
  { driver: 'pg', anchor: 'none' },
]

/** A run's options. */
export interface Run extends PlanOptions {
  /** Maximum time without progress while the fleet finishes its work. */
  patienceMs: number
  /** Rooms whose workloads run. Undefined means all rooms. */
  onlyRooms: string[] | undefined
  /** Number of instances in each process. */
  instances: number
  /** Maximum pause between two steps of a workload. */
  pauseMs: number
  /** Programs of an older PostgreSQL. The run starts with that version, and upgrades it in the middle. */
  upgradeFrom: string | undefined
  /** Number of changes of the leader of a Patroni cluster, on which the run then takes place instead of the plan. Undefined means no cluster. */
  leaderChanges: number | undefined
  log(line: string): void
}

export interface Outcome extends Checked {
  seed: number
  seconds: number
  plan: Step[]
  injected: Record<string, number>
  pause: Pause | undefined
  load: Load | undefined
  unfinishedWork: string[]
}

export interface Cluster extends Pick<Database, 'server' | 'pooler' | 'disk'> {
  /** URL for the nemesis and the judge, who are superusers, except on a Patroni cluster. */
  url: string
  expiryMs: number
  members: Member[]
  holdfast: Holdfast
  query: Query
  write: Write
  /** The last values of the sequences fence and job_number when the run began. */
  backup: [string, string]
  /** Starts another server with the same settings. Stopped when the run has ended. */
  startServer(): Promise<EmbeddedServer>
  /** Connects the fleet's addresses and the judge to the same database on another server. */
  moveTo(server: EmbeddedServer): Promise<void>
}

/** The cluster, as a fault receives it. */
export interface FaultContext extends Cluster {
  /** Records in the history that sessions are being ended, until the returned function is called. */
  ending(pid: string): () => void
}

export async function runFaults(run: Run): Promise<Outcome> {
  const { seconds, seed, size, instances, expiryMs, pauseMs, everyMs, patienceMs } = run
  const { onlyFaults, onlyRooms, upgradeFrom, leaderChanges, log } = run
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-faults-'))
  const members: Member[] = []
  const closing: (() => Promise<void>)[] = []
  const isMeasured = instances > 1
  const serverSettings = {
    ...settings,
    max_connections: String(Math.max(minConnections, connectionsPerInstance * size * instances)),
    ...(upgradeFrom && replicationSettings),
    ...(isMeasured && loadSettings),
  }
  const plan = leaderChanges ? [] : planOf({ seed, seconds, size, expiryMs, everyMs, onlyFaults })
  const embedded = {
    settings: serverSettings,
    binDir: upgradeFrom,
    hasDisk: plan.some(({ fault }) => fault === 'fill the disk'),
    backends: Math.max(20, instances * size),
  }
  try {
    const onClose = (close: () => unknown) => void closing.push(async () => void (await close()))
    const database = await (leaderChanges ? openPatroni(onClose) : openEmbedded(embedded, onClose))
    const { url, pooledUrl, adminUrl, server, pooler, disk, patroni } = database
    if (embedded.hasDisk && !disk) log('no disk is filled, because only root can mount one, and not in every container')
    const judge = judgeConnection(adminUrl, closing)
    const { query } = judge
    // On an embedded server, the fleet has its own role, which owns its database.
    if (server) await query("create role app login password 'app'; alter database app owner to app; set role app")
    await query(`${tables}; reset role`)
    const endLoad = isMeasured ? await measureLoad(adminUrl) : undefined
    const address = await Network.before(url)
    const holdfast = await Holdfast.open({ url: address.through(url), expiry: expiryMs, log: false })
    closing.push(async () => {
      await holdfast.close()
      await address.close()
    })
    for (let number = 0; number < size; number++) {
      const configuration = configurations[number % configurations.length]!
      const pooled = pooledUrl !== undefined && configuration.pooled === true
      const options = {
        url: pooled ? pooledUrl : url,
        instances,
        expiryMs,
        pauseMs,
        number,
        history: folder,
        onlyRooms,
        seed,
        ...configuration,
        pooled,
      }
      // Some clocks show the wrong time of day. Holdfast must not depend on them.
      members.push(await Member.make({ ...options, clockMs: [0, 3_600_000, -3_600_000][number % 3]! }))
    }
    const write = writeHistory(join(folder, 'nemesis.jsonl'))
    for (const member of members) member.onDeath = (text) => write('wrong', { text })
    await Promise.all(members.map((member) => member.start()))

    const [numbers] = await query(
      'select fence.last_value as fence, job_number.last_value as job from holdfast.fence, holdfast.job_number',
    )
    const cluster: Cluster = {
      server,
      pooler,
      disk,
      url: adminUrl,
      expiryMs,
      members,
      holdfast,
      query,
      write,
      backup: [numbers!.fence, numbers!.job],
      async startServer() {
        const next = await startEmbedded({ settings: serverSettings })
        // The pooler and the connections to this server are closed first.
        closing.unshift(() => next.stop('immediate'))
        return next
      },
      async moveTo(next) {
        cluster.server = next
        cluster.disk = undefined
        cluster.url = urlOf(next)
        judge.moveTo(cluster.url)
        address.moveTo(next.url)
        // A member behind the pooler keeps its address.
        for (const member of members) if (!member.isPooled) member.network.moveTo(next.url)
        await pooler?.moveTo(urlOf(next, 'app'))
      },
    }
    const isOver = new AbortController()
    const opening = openThroughPooler(cluster, pooledUrl, isOver.signal)
    const upgrading = upgradeFrom === undefined ? undefined : upgrade(cluster, upgradeFrom, 500 * seconds, log)
    const injecting = patroni
      ? changeLeaders(patroni, faultContext(cluster, 'change of the leader'), leaderChanges!, log)
      : injectFaults(cluster, plan, seconds, log)
    const [injected, pause] = await Promise.all([injecting, upgrading])
    isOver.abort()
    const load = await endLoad?.()
    await opening
    log('all faults have been injected, waiting for the fleet to finish its work')
    const unfinishedWork = await finishWork(cluster, patienceMs).then(
      () => [],
      async (error) => [`${error.message}\n${await sessionsOf(query)}`],
    )
    const history = await readHistory(folder)
    return {
      seed,
      seconds,
      plan,
      injected,
      pause,
      load,
      unfinishedWork,
      ...(await check(history, cluster, unfinishedWork)),
    }
  } finally {
    for (const member of members) {
      member.thaw()
      await member.kill()
      await member.network.close()
    }
    for (const close of closing.reverse()) await close().catch(() => {})
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Returns a function that queries the database on its own connection, and opens a new connection after each failure. */
function judgeConnection(url: string, closing: (() => Promise<void>)[]): { query: Query; moveTo(url: string): void } {
  let at = url
  let client: pg.Client | undefined
  closing.push(async () => client?.end())
  const query: Query = async (text, values) => {
    if (!client) {
      const opening = new pg.Client({
        connectionString: at,
        application_name: 'judge',
        connectionTimeoutMillis: 10_000,
      })
      opening.on('error', () => {
        if (client === opening) client = undefined
      })
      await opening.connect()
      client = opening
    }
    return (await client.query(text, values)).rows
  }
  return {
    query,
    moveTo(next) {
      at = next
      void client?.end()
      client = undefined
    },
  }
}

/** Tries again and again to open an instance that requires session locks through the pooler. Holdfast must reject each try, also during faults. */
async function openThroughPooler({ expiryMs, write }: Cluster, pooledUrl: string | undefined, signal: AbortSignal) {
  while (pooledUrl && !signal.aborted) {
    await Holdfast.open({
      url: pooledUrl,
      expiry: expiryMs,
      anchor: 'required',
      migrate: false,
      log: false,
    }).then(
      async (holdfast) => {
        write('wrong', { text: 'Holdfast offered session locks behind a pooler in transaction mode' })
        await holdfast.close()
      },
      (error) => {
        if (error instanceof SessionLocksUnavailableError) write('refused')
        else if (!error.retryable)
          write('wrong', { text: `opening through the pooler failed with an unexpected error: ${error.stack}` })
      },
    )
    await sleep(2_000, undefined, { signal }).catch(() => {})
  }
}

/** Faults that can prevent a process from being notified that its session has ended. */
const preventsNotification = new Set(['freeze', 'cut', 'lose an answer', 'delay', 'block'])

/** Faults that end sessions. */
const endsSessions = new Set(['terminate', 'keep terminating', 'change a setting'])

/** Injects each of the plan's faults at its time. Returns how often each fault was injected. */
async function injectFaults(cluster: Cluster, plan: Step[], seconds: number, log: (line: string) => void) {
  const from = performance.now()
  /** Resolves when all processes know which sessions faults have ended. A lost notification can then give a lock two holders. */
  let notified: Promise<unknown> = Promise.resolve()
  const injected: Record<string, number> = {}
  const busy = new Set<string>()
  const actives: Promise<void>[] = []
  // Each server-wide fault, and each member of the fleet, has at most one active fault.
  const areaOf = ({ fault, on }: Step) => (on === undefined ? fault : `member ${on}`)
  for (const step of plan) {
    await sleep(Math.max(0, from + step.at - performance.now()))
    const area = areaOf(step)
    if (busy.has(area)) continue
    busy.add(area)
    log(`${(step.at / 1_000).toFixed(1)} s: ${step.fault}${step.on === undefined ? '' : ` of member ${step.on}`}`)
    const started = (preventsNotification.has(step.fault) ? notified : Promise.resolve()).then(() =>
      startFault(cluster, step),
    )
    const active = started
      .then(async (end) => {
        injected[step.fault] = (injected[step.fault] ?? 0) + 1
        if (typeof end !== 'function') return
        await sleep(step.forMs)
        await end()
      })
      // A fault may fail because another fault is active.
      .catch((error) => log(`${step.fault} failed: ${error.message}`))
      .finally(() => busy.delete(area))
    if (endsSessions.has(step.fault)) notified = Promise.all([notified, active.then(() => sleep(maxNotificationMs))])
    actives.push(active)
  }
  await sleep(Math.max(0, from + 1_000 * seconds - performance.now()))
  await Promise.all(actives)
  return injected
}

async function startFault(cluster: Cluster, step: Step) {
  const { fault, on } = step
  cluster.write('fault', { text: JSON.stringify({ ...step, pid: cluster.members[on ?? -1]?.pid }) })
  return faults[fault]!(faultContext(cluster, fault), step as Required<Step>)
}

function faultContext(cluster: Cluster, fault: string): FaultContext {
  return { ...cluster, ending: (pid: string) => recordEnding(cluster, fault, pid) }
}

/** Records when a fault that ends sessions started and when it was over. */
function recordEnding({ write }: Cluster, fault: string, pid: string) {
  const from = process.hrtime.bigint()
  return () => write('fault', { ends: pid, text: fault, from: String(from), to: String(process.hrtime.bigint()) })
}

const heldItems = `
select 'lock ' || ((classid::bigint << 32) | objid::bigint) as item from pg_locks
where locktype = 'advisory' and objsubid = 1 and database = (select oid from pg_database where datname = current_database())
union all
select 'lease ' || key from holdfast.lease where token <> '' and expires_at > clock_timestamp()
union all
select 'permit ' || key from holdfast.permit where weight > 0 and holdfast.is_present(session)
union all
select 'delivery ' || key from holdfast.delivery where state = 'in-flight' and holdfast.is_present(session)
union all
select 'claim of session ' || session from holdfast.claim`

/** Returns the sessions and the locks of a run that does not finish, for the search for its cause. */
async function sessionsOf(query: Query): Promise<string> {
  const rows = await query(`
    select format('session %s of %s, %s for %s, blocked by %s: %s', pid, application_name, state, now() - state_change, pg_blocking_pids(pid), left(query, 100)) as item
    from pg_stat_activity
    where datname = current_database() and (state <> 'idle' or cardinality(pg_blocking_pids(pid)) > 0)
    union all
    select format('lock on %s of session %s of %s, last used %s ago: %s', coalesce(name.label, key::text), pid, application_name, now() - state_change, left(query, 100))
    from (
      select pid, (classid::bigint << 32) | objid::bigint as key from pg_locks
      where locktype = 'advisory' and objsubid = 1 and granted and database = (select oid from pg_database where datname = current_database())
    ) as held
    join pg_stat_activity using (pid)
    left join holdfast.name using (key)
    union all
    select format('lease on %s of %s until %s', coalesce(name.label, key::text), instance, expires_at)
    from holdfast.lease left join holdfast.name using (key)
    where token <> '' and expires_at > clock_timestamp()`).catch((error) => [{ item: String(error) }])
  return rows.map(({ item }) => item).join('\n')
}

const unfinishedItems = `
select 'job ' || id || ' of kind ' || kind ||
  case
    when session is null then ', ready'
    else ', claimed by session ' || session || case when holdfast.is_present(session) then '' else ', which is dead' end
  end || coalesce(', ' || (failures->-1->>'message'), '') as item
from holdfast.job_live
union all
select 'waiting job ' || id || ' of kind ' || kind || ', ' || stage || coalesce(', ' || (failures->-1->>'message'), '')
from holdfast.waiting
union all
select 'tick ' || at || ' ' || state from holdfast.tick where state in ('running', 'waiting')`

/** Ends all faults and workloads, waits until all jobs and ticks have ended, and closes all instances. Then nothing may be held. */
async function finishWork({ members, query, holdfast }: Cluster, patienceMs: number) {
  for (const member of members) {
    member.network.heal()
    member.network.delay(0)
    member.thaw()
    if (!member.child) await member.start()
  }
  await Promise.all(members.map((member) => member.finish(patienceMs)))
  for (const name of [...Object.keys(rules), ...storedNames]) {
    // A run without schedules has none of these.
    await holdfast.schedules.override(name, { at: new Date('2999-01-01T00:00:00Z') }).catch(() => {})
  }
  await untilNone('unfinished', query, unfinishedItems, patienceMs)
  await Promise.all(members.map((member) => member.close()))
  await untilNone('held', query, heldItems, patienceMs)
}

async function untilNone(what: string, query: Query, text: string, withinMs: number) {
  // The time starts again whenever the backlog shrinks.
  let least = Number.POSITIVE_INFINITY
  let deadline = performance.now() + withinMs
  for (;;) {
    const rows = await query(text).catch(() => [{ item: 'unknown' }])
    if (rows.length === 0) return
    if (rows.length < least) deadline = performance.now() + withinMs
    least = Math.min(least, rows.length)
    if (performance.now() > deadline) {
      const some = rows.slice(0, 5).map((row) => row.item)
      throw new Error(
        `${rows.length} are still ${what}, and their number has not fallen for ${withinMs / 1_000} s: ${some.join(', ')}`,
      )
    }
    await sleep(100)
  }
}
