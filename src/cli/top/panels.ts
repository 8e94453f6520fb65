// The panels of the overview: for each its columns, and what they say of a row.
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
    { title: 'INSTANCE', text: ({ id }) => id },
    {
      title: 'STATE',
      text: stateOf,
      style: ({ alive, state }) => (alive ? (state === 'open' ? 'green' : 'yellow') : 'red'),
    },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace, spare: 6 },
    { title: 'HOST', text: ({ host }) => host, spare: 2 },
    { title: 'PROCESS', text: ({ osPid }) => String(osPid), spare: 1 },
    count('HOLDS', ({ held }) => held),
    count('WAITS', ({ waiting }) => waiting, { style: ({ waiting }) => waiting > 0 && 'yellow' }),
    count('LEASES', ({ leased }) => leased),
    count('WORKERS', ({ workers }) => workers, { spare: 3 }),
    count('RECONNECTS', ({ reconnects }) => reconnects, {
      spare: 4,
      style: ({ reconnects }) => reconnects > 0 && 'yellow',
    }),
    time('OPEN', ({ openMs }) => openMs),
    { title: 'VERSION', text: ({ version }) => version, spare: 5 },
  ],
  facts: (row) => [
    ['instance', row.id],
    ['state', stateOf(row)],
    ['namespace', row.namespace],
    ['host', row.host],
    ['process', row.osPid],
    ['version', row.version],
    ['holds', row.held],
    ['waits', row.waiting],
    ['leases', row.leased],
    ['workers', row.workers],
    ['reconnects', row.reconnects],
    ['open for', age(row.openMs)],
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
    { title: 'HOLDER', text: ({ holder, holders }) => holdersLabel(holder, holders) },
    time('HELD', ({ heldMs }) => heldMs),
    count('WAITERS', ({ waiters }) => waiters, { style: ({ waiters }) => waiters > 0 && 'yellow' }),
    time('LONGEST', ({ waitedMs }) => waitedMs, { style: () => 'yellow' }),
    { title: 'FIRST IN LINE', text: ({ waiter }) => ownerLabel(waiter), spare: 2 },
    { title: 'FENCE', text: ({ fence }) => String(fence ?? ''), spare: 3 },
  ],
  facts: (row, schema) => [
    ['name', row.label],
    ['namespace', row.namespace],
    ['key', row.key],
    ['mode', row.mode],
    ['holder', holdersLabel(row.holder, row.holders) || 'nobody'],
    ['instance', row.holder?.instance ?? null],
    ['server process', row.holder?.pid ?? null],
    ['held for', age(row.heldMs) || (row.holders > 0 ? 'less than about 3s' : '-')],
    ['fence', row.fence],
    ['calls that wait', row.waiters],
    ['first in line', ownerLabel(row.waiter) || '-'],
    ['waits for', age(row.waitedMs) || '-'],
    ['more', commandForName('lock show', row, schema)],
  ],
})

function holdersLabel(first: SessionOwner | null, all: number): string {
  return ownerLabel(first) + (all > 1 ? ` +${all - 1}` : '')
}

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
    { title: 'HOLDER', text: leaseHolderText },
    time('HELD', ({ heldMs }) => heldMs),
    time('EXPIRES', ({ expiresInMs }) => expiresInMs),
    time('TTL', ({ ttlMs }) => ttlMs, { spare: 2, least: 3 }),
    {
      title: 'WANTED',
      text: ({ hasWaiters }) => (hasWaiters ? 'yes' : ''),
      order: ({ hasWaiters }) => Number(hasWaiters),
      style: () => 'yellow',
      spare: 1,
    },
    { title: 'FENCE', text: ({ fence }) => String(fence), spare: 3 },
  ],
  facts: (row) => [
    ['name', row.label],
    ['namespace', row.namespace],
    ['key', row.key],
    ['holder', leaseHolderText(row)],
    ['instance', row.holder.instance],
    ['held for', age(row.heldMs)],
    ['expires in', age(row.expiresInMs)],
    ['ttl', age(row.ttlMs)],
    ['fence', row.fence],
    ['somebody waits', row.hasWaiters ? 'yes' : 'no'],
  ],
})

function leaseHolderText({ held, holder }: OverviewLease): string {
  return held ? ownerLabel(holder) : 'nobody: kept taken'
}

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
    count('MEMBERS', ({ members }) => members, { style: ({ members }) => members === 0 && 'red', spare: 2 }),
    { title: 'STATE', text: stateOfSchedule, style: () => 'yellow' },
  ],
  facts: (row, schema) => [
    ['schedule', row.name],
    ['namespace', row.namespace],
    ['rule', describeRule(row.rule) + (row.overridden ? ', by an operator' : '')],
    ['next', row.nextAt ? `${row.nextAt.toISOString()}, ${nextText(row)}` : null],
    ['state', stateOfSchedule(row) || 'it ticks'],
    ['members', row.members],
    ['last tick', row.last?.tick.toISOString() ?? null],
    ['ended', row.last ? `${row.last.state} ${age(row.last.agoMs)} ago` : null],
    ['took', exactDuration(row.last?.tookMs ?? null) || '-'],
    ['run by', row.last?.instance ?? null],
    ['more', commandLine('schedule show', commandOptions(row.namespace, schema), row.name)],
  ],
})

/** Later than that somebody would have taken a tick. */
const overdueMs = 5_000

function nextText({ nextInMs, paused }: OverviewSchedule): string {
  if (nextInMs === null || paused) return '-'
  if (nextInMs < -overdueMs) return `overdue ${age(-nextInMs)}`
  return nextInMs <= 0 ? 'now' : `in ${age(nextInMs)}`
}

function stateOfSchedule({ running, paused, members, overridden }: OverviewSchedule): string {
  if (running > 0) return running > 1 ? `${running} run` : 'runs'
  if (paused) return 'paused'
  if (members === 0) return 'orphan'
  return overridden ? 'overridden' : ''
}

const queues = definePanel<OverviewQueue>({
  title: 'QUEUES',
  rows: ({ queues }) => queues,
  total: ({ counts }) => counts.queues,
  id: ({ key }) => key,
  listedBy: 'holdfast queue ls',
  columns: [
    { title: 'QUEUE', text: queueName },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 6 },
    count('READY', ({ ready }) => ready, { text: readyText }),
    count('RUNNING', ({ running }) => running, { spare: 1 }),
    count('WAITING', ({ waiting }) => waiting, { text: waitingText, spare: 2 }),
    time('OLDEST', ({ oldestMs }) => oldestMs),
    count('DONE/S', ({ donePerSecond }) => donePerSecond),
    { ...latencyColumn('WAITED', ({ waited }) => waited), least: 11 },
    { ...latencyColumn('TOOK', ({ took }) => took), least: 11, spare: 3 },
    count('BURIED', ({ buried }) => buried, { spare: 5, style: ({ buried }) => buried > 0 && 'red' }),
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
  facts: (row, schema) => [
    ['queue', queueName(row)],
    ['namespace', row.namespace],
    ['state', stateOfQueue(row) || 'it is worked on'],
    ['ready', row.readyIs === 'estimated' ? `${readyText(row)}, by the statistics of the planner` : readyText(row)],
    ['running', row.running],
    ['waiting', waitingText(row)],
    ['oldest', age(row.oldestMs) || '-'],
    ['workers', row.workers],
    ['done a second', row.donePerSecond],
    ['waited p50/p99', latencyText(row.waited) || '-'],
    ['took p50/p99', latencyText(row.took) || '-'],
    ['buried lately', row.buried],
    ['more', row.name === null ? commandLine('queue ls', { schema }) : jobsCommand(row.name, row.namespace, schema)],
  ],
})

function jobsCommand(queue: string, namespace: string | null, schema: string): string {
  return `${commandLine('job ls', commandOptions(namespace, schema))} --queue ${shellQuote(queue)}`
}

function queueName({ name, key }: OverviewQueue): string {
  return name ?? `key ${key}`
}

function readyText({ ready, readyIs }: OverviewQueue): string {
  if (readyIs === 'at least') return `${ready - 1}+`
  return readyIs === 'estimated' ? `~${shortNumber(ready)}` : String(ready)
}

function waitingText({ waiting }: OverviewQueue): string {
  return waiting > 1_000 ? '1000+' : String(waiting)
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

const trouble = definePanel<Trouble>({
  title: 'TROUBLE',
  rows: ({ trouble }) => trouble,
  id: ({ kind, subject, job, at, instance }) => [kind, subject, job, at?.getTime(), instance].join(' '),
  listedBy: 'holdfast job ls --state buried',
  columns: [
    {
      title: 'WHEN',
      text: ({ agoMs }) => (agoMs === null ? 'now' : `${age(agoMs)} ago`),
      order: ({ agoMs }) => -(agoMs ?? 0),
      least: 8,
    },
    { title: 'WHAT', text: ({ kind }) => troubleTitles[kind], style: () => 'red' },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 3 },
    { title: 'WHERE', text: ({ subject }) => subject },
    { title: 'JOB', text: ({ job }) => (job === null ? '' : String(job)), spare: 2 },
    { title: 'WHY', text: ({ detail }) => detail, least: 40 },
    { title: 'INSTANCE', text: ({ instance }) => instance ?? '', spare: 1 },
  ],
  facts: (row, schema) => [
    ['what', troubleTitles[row.kind]],
    ['where', row.subject],
    ['namespace', row.namespace],
    ['when', row.at ? `${row.at.toISOString()}, ${age(row.agoMs)} ago` : 'now'],
    ['job', row.job],
    ['instance', row.instance],
    ['why', row.detail],
    ...(row.job === null ? [] : [['more', commandLine('job show', { schema }, String(row.job))] as [string, string]]),
  ],
})

const troubleTitles: Record<Trouble['kind'], string> = {
  buried: 'job buried',
  failed: 'run failed',
  broken: 'run broken',
  gap: 'ticks missed',
  lease: 'lease lost',
  reconnected: 'reconnected',
  gone: 'instance gone',
}

export const panels: readonly Panel[] = [instances, locks, leases, schedules, queues, trouble]

/** `1.2M`: an estimate has no last digits. */
function shortNumber(many: number): string {
  if (many < 1e4) return String(Number(many.toPrecision(2)))
  return many < 1e6 ? `${Number((many / 1e3).toPrecision(2))}k` : `${Number((many / 1e6).toPrecision(2))}M`
}
