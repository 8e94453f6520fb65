import { commandLine, shellQuote } from '../../base/index.js'
import { describeRule } from '../../cron/index.js'
import {
  type Latency,
  nameLabel,
  type OverviewInstance,
  type OverviewLease,
  type OverviewLock,
  type OverviewQueue,
  type OverviewSchedule,
  participantLabel,
  type SessionOwner,
  type Trouble,
} from '../../observe/index.js'
import { commandForName, commandOptions, stateOf } from '../labels.js'
import { age, type Column, count, definePanel, exactDuration, type Panel, time } from './panel.js'

const instances = definePanel<OverviewInstance>({
  title: 'INSTANCES',
  rows: ({ instances }) => instances,
  total: ({ counts }) => counts.instances,
  id: ({ id }) => id,
  listedBy: 'holdfast instance ls',
  columns: [
    { title: 'NAME', text: ({ name }) => name },
    {
      title: 'STATE',
      text: stateOf,
      style: ({ alive, state }) => (alive ? (state === 'open' ? 'green' : 'yellow') : 'red'),
    },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace, spare: 6 },
    count('HOLDS', ({ held }) => held),
    count('WAITS', ({ waiting }) => waiting, { style: ({ waiting }) => waiting > 0 && 'yellow' }),
    count('LEASES', ({ leased }) => leased),
    count('WORKERS', ({ workers }) => workers, { spare: 3 }),
    count('RECONNECTS', ({ reconnects }) => reconnects, {
      spare: 4,
      style: ({ reconnects }) => reconnects > 0 && 'yellow',
    }),
    time('OPEN', ({ openMs }) => openMs, { label: 'open for' }),
    { title: 'VERSION', text: ({ version }) => version, spare: 5 },
    { title: 'ID', text: ({ id }) => id, spare: 2 },
    { title: 'HOST', text: ({ host }) => host, spare: 7 },
    { title: 'PROCESS', text: ({ osPid }) => String(osPid), spare: 7 },
  ],
})

const locks = definePanel<OverviewLock>({
  title: 'LOCKS',
  rows: ({ locks }) => locks,
  total: ({ counts, locks }) => Math.max(counts.held, locks.length),
  id: ({ key }) => key,
  listedBy: 'holdfast lock ls',
  columns: [
    { title: 'NAME', text: nameLabel },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 4 },
    { title: 'MODE', text: ({ mode }) => mode ?? '-', spare: 1 },
    { title: 'HOLDER', text: ({ holder, holders }) => ownerLabel(holder) + (holders > 1 ? ` +${holders - 1}` : '') },
    time('HELD', ({ heldMs }) => heldMs, { label: 'held for' }),
    count('WAITERS', ({ waiters }) => waiters, { style: ({ waiters }) => waiters > 0 && 'yellow' }),
    time('LONGEST', ({ waitedMs }) => waitedMs, { label: 'longest wait', style: () => 'yellow' }),
    { title: 'FIRST IN LINE', text: ({ waiter }) => ownerLabel(waiter), spare: 2 },
    { title: 'FENCE', text: ({ fence }) => String(fence ?? ''), spare: 3 },
  ],
  details: (row, schema) => [
    ['held for', age(row.heldMs) || (row.holders > 0 ? 'less than about 3s' : '')],
    ['key', row.key],
    ['instance', row.holder?.instance],
    ['server process', row.holder?.pid],
    ['more', commandForName('lock show', row, schema)],
  ],
})

function ownerLabel(who: SessionOwner | null): string {
  return who === null ? '' : participantLabel({ ...who, user: null }, who.pid)
}

const leases = definePanel<OverviewLease>({
  title: 'LEASES',
  rows: ({ leases }) => leases,
  total: ({ counts }) => counts.leased,
  id: ({ key }) => key,
  listedBy: 'holdfast lease ls',
  columns: [
    { title: 'NAME', text: nameLabel },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 4 },
    { title: 'HOLDER', text: ({ held, holder }) => (held ? ownerLabel(holder) : 'cooling down') },
    time('HELD', ({ heldMs }) => heldMs, { label: 'held for' }),
    time('EXPIRES', ({ expiresInMs }) => expiresInMs, { label: 'expires in' }),
    time('TTL', ({ ttlMs }) => ttlMs, { spare: 2, least: 3 }),
    {
      title: 'WAITERS',
      text: ({ hasWaiters }) => (hasWaiters ? 'yes' : ''),
      order: ({ hasWaiters }) => Number(hasWaiters),
      style: () => 'yellow',
      spare: 1,
    },
    { title: 'FENCE', text: ({ fence }) => String(fence), spare: 3 },
  ],
  details: (row) => [
    ['key', row.key],
    ['instance', row.holder.instance],
  ],
})

const schedules = definePanel<OverviewSchedule>({
  title: 'SCHEDULES',
  rows: ({ schedules }) => schedules,
  total: ({ counts }) => counts.schedules,
  id: ({ key }) => key,
  listedBy: 'holdfast schedule ls',
  columns: [
    { title: 'SCHEDULE', text: ({ name }) => name },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace, spare: 4 },
    {
      title: 'NEXT',
      text: nextText,
      order: ({ nextInMs, paused }) => (nextInMs === null || paused ? null : -nextInMs),
      style: ({ nextInMs }) => (nextInMs ?? 0) < -overdueMs && 'red',
      least: 9,
    },
    { title: 'RULE', text: ({ rule }) => describeRule(rule), spare: 1 },
    {
      title: 'LAST',
      text: ({ last }) => (last ? `${last.state} ${age(last.agoMs)} ago` : ''),
      style: ({ last }) => (last?.state === 'failed' || last?.state === 'broken') && 'red',
      least: 12,
    },
    time('TOOK', ({ last }) => last?.tookMs ?? null, {
      text: ({ last }) => exactDuration(last?.tookMs ?? null),
      spare: 3,
    }),
    count('INSTANCES', ({ members }) => members, {
      style: ({ members, stored }) => members === 0 && !stored && 'red',
      spare: 2,
    }),
    { title: 'STATE', text: stateOfSchedule, style: () => 'yellow' },
  ],
  details: (row, schema) => [
    ['next', row.nextAt && `${row.nextAt.toISOString()}, ${nextText(row)}`],
    ['rule', describeRule(row.rule) + (row.overridden ? ', by an operator' : '')],
    ['state', stateOfSchedule(row) || 'active'],
    ['last tick', row.last?.tick.toISOString()],
    ['run by', row.last?.instanceName ?? row.last?.instance],
    ['more', commandLine('schedule show', commandOptions(row.namespace, schema), row.name)],
  ],
})

/** Time within which a member normally claims a tick. */
const overdueMs = 5_000

function nextText({ nextInMs, paused }: OverviewSchedule): string {
  if (nextInMs === null || paused) return '-'
  if (nextInMs < -overdueMs) return `overdue ${age(-nextInMs)}`
  return nextInMs <= 0 ? 'now' : `in ${age(nextInMs)}`
}

function stateOfSchedule({ running, paused, members, overridden, stored }: OverviewSchedule): string {
  if (running > 0) return running > 1 ? `${running} run` : 'runs'
  if (paused) return 'paused'
  if (members === 0 && !stored) return 'orphan'
  return overridden ? 'overridden' : ''
}

const queues = definePanel<OverviewQueue>({
  title: 'QUEUES',
  rows: ({ queues }) => queues,
  total: ({ counts }) => counts.queues,
  id: ({ key }) => key,
  listedBy: 'holdfast queue ls',
  columns: [
    { title: 'QUEUE', text: ({ name, key }) => name ?? `key ${key}` },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 6 },
    count('READY', ({ ready }) => ready, { text: readyText }),
    count('RUNNING', ({ running }) => running, { spare: 1 }),
    count('WAITING', ({ waiting }) => waiting, {
      text: ({ waiting }) => (waiting > 1_000 ? '1000+' : String(waiting)),
      spare: 2,
    }),
    time('OLDEST', ({ oldestMs }) => oldestMs),
    count('DONE/S', ({ donePerSecond }) => donePerSecond, { label: 'done per second' }),
    { ...latencyColumn('WAITED', ({ waited }) => waited), label: 'waited p50/p99', least: 11 },
    { ...latencyColumn('TOOK', ({ took }) => took), label: 'took p50/p99', least: 11, spare: 3 },
    count('FAILED', ({ buried }) => buried, {
      label: 'failed lately',
      spare: 5,
      style: ({ buried }) => buried > 0 && 'red',
    }),
    count('WORKERS', ({ workers }) => workers, {
      spare: 4,
      style: ({ workers, ready }) => workers === 0 && ready > 0 && 'red',
    }),
    {
      title: 'STATE',
      text: stateOfQueue,
      style: ({ workers, pausedMs }) => (pausedMs === null && workers === 0 ? 'red' : 'yellow'),
    },
  ],
  details: (row, schema) => [
    ['ready', readyText(row) + (row.readyIs === 'estimated' ? ', estimated from a sample of job IDs' : '')],
    ['state', stateOfQueue(row) || 'active'],
    ['more', row.name === null ? commandLine('queue ls', { schema }) : jobsCommand(row.name, row.namespace, schema)],
  ],
})

function jobsCommand(queue: string, namespace: string | null, schema: string): string {
  return `${commandLine('job ls', commandOptions(namespace, schema))} --queue ${shellQuote(queue)}`
}

function readyText({ ready, readyIs }: OverviewQueue): string {
  if (readyIs === 'at least') return `${ready - 1}+`
  return readyIs === 'estimated' ? `~${shortNumber(ready)}` : String(ready)
}

function stateOfQueue({ pausedMs, workers, ready, waiting }: OverviewQueue): string {
  if (pausedMs !== null) return 'paused'
  return workers === 0 && ready + waiting > 0 ? 'no workers' : ''
}

function latencyColumn(title: string, of: (row: OverviewQueue) => Latency | null): Column<OverviewQueue> {
  return { title, text: (row) => latencyText(of(row)), order: (row) => of(row)?.p99Ms ?? null }
}

function latencyText(latency: Latency | null): string {
  return latency === null ? '' : `${exactDuration(latency.p50Ms)}/${exactDuration(latency.p99Ms)}`
}

export const problems = definePanel<Trouble>({
  title: 'PROBLEMS',
  rows: ({ trouble }) => trouble,
  id: ({ kind, subject, job, at, instance }) => [kind, subject, job, at?.getTime(), instance].join(' '),
  listedBy: 'holdfast job ls --state failed',
  columns: [
    {
      title: 'WHEN',
      text: ({ agoMs }) => (agoMs === null ? 'now' : `${age(agoMs)} ago`),
      order: ({ agoMs }) => -(agoMs ?? 0),
      least: 8,
    },
    { title: 'PROBLEM', text: ({ kind }) => troubleTitles[kind], style: () => 'red' },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 3 },
    { title: 'WHERE', text: ({ subject }) => subject },
    { title: 'JOB', text: ({ job }) => (job === null ? '' : String(job)), spare: 2 },
    { title: 'REASON', text: ({ detail }) => detail, least: 40 },
    { title: 'INSTANCE', text: ({ instance, instanceName }) => instanceName ?? instance ?? '', spare: 1 },
  ],
  details: (row, schema) => [
    ['when', row.at ? `${row.at.toISOString()}, ${age(row.agoMs)} ago` : 'now'],
    ...(row.job === null ? [] : [['more', commandLine('job show', { schema }, String(row.job))] as [string, string]]),
  ],
})

const troubleTitles: Record<Trouble['kind'], string> = {
  buried: 'job failed',
  failed: 'run failed',
  broken: 'run broken',
  gap: 'ticks skipped',
  lease: 'lease lost',
  reconnected: 'reconnected',
  gone: 'instance lost',
}

export const panels: readonly Panel[] = [instances, locks, leases, schedules, queues, problems]

/** Formats an estimate, such as `1.2M`, because two digits are enough for an estimate. */
function shortNumber(many: number): string {
  if (many < 1e4) return String(Number(many.toPrecision(2)))
  return many < 1e6 ? `${Number((many / 1e3).toPrecision(2))}k` : `${Number((many / 1e6).toPrecision(2))}M`
}
