// The panels of the overview: for each its columns, and what they say of a row.
import { commandFor, shellWord } from '../../base/index.js'
import { ruleInWords } from '../../cron/index.js'
import {
  called,
  type InstanceGlance,
  type Latency,
  type LeaseGlance,
  type LockGlance,
  type QueueGlance,
  type ScheduleGlance,
  type Trouble,
  type Who,
  whoIs,
} from '../../observe/index.js'
import { commandAbout, elsewhere, stateOf } from '../who.js'
import { age, type Column, count, define, exact, type Panel, time } from './panel.js'

const instances = define<InstanceGlance>({
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
    count('LIVES', ({ lives }) => lives, { spare: 4, style: ({ lives }) => lives > 1 && 'yellow' }),
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
    ['lives', row.lives],
    ['open for', age(row.openMs)],
  ],
})

const locks = define<LockGlance>({
  title: 'LOCKS',
  rows: ({ locks }) => locks,
  total: ({ counts, locks }) => Math.max(counts.held, locks.length),
  id: ({ key }) => key,
  listedBy: 'holdfast lock ls',
  columns: [
    { title: 'NAME', text: called },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 4 },
    { title: 'MODE', text: ({ mode }) => mode ?? '-', spare: 1 },
    { title: 'HOLDER', text: ({ holder, holders }) => takers(holder, holders) },
    time('HELD', ({ heldMs }) => heldMs),
    count('WAITERS', ({ waiters }) => waiters, { style: ({ waiters }) => waiters > 0 && 'yellow' }),
    time('LONGEST', ({ waitedMs }) => waitedMs, { style: () => 'yellow' }),
    { title: 'FIRST IN LINE', text: ({ waiter }) => whoOf(waiter), spare: 2 },
    { title: 'FENCE', text: ({ fence }) => String(fence ?? ''), spare: 3 },
  ],
  facts: (row, schema) => [
    ['name', row.label],
    ['namespace', row.namespace],
    ['key', row.key],
    ['mode', row.mode],
    ['holder', takers(row.holder, row.holders) || 'nobody'],
    ['instance', row.holder?.instance ?? null],
    ['server process', row.holder?.pid ?? null],
    ['held for', age(row.heldMs) || (row.holders > 0 ? 'less than about 3s' : '-')],
    ['fence', row.fence],
    ['calls that wait', row.waiters],
    ['first in line', whoOf(row.waiter) || '-'],
    ['waits for', age(row.waitedMs) || '-'],
    ['more', commandAbout('lock show', row, schema)],
  ],
})

function takers(first: Who | null, all: number): string {
  return whoOf(first) + (all > 1 ? ` +${all - 1}` : '')
}

function whoOf(who: Who | null): string {
  return who === null ? '' : whoIs({ ...who, user: null }, who.pid)
}

const leases = define<LeaseGlance>({
  title: 'LEASES',
  rows: ({ leases }) => leases,
  total: ({ counts }) => counts.leased,
  id: ({ key }) => key,
  listedBy: 'holdfast lease ls',
  columns: [
    { title: 'NAME', text: called },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 4 },
    { title: 'HOLDER', text: leaseHolder },
    time('HELD', ({ heldMs }) => heldMs),
    time('EXPIRES', ({ expiresInMs }) => expiresInMs),
    time('TTL', ({ ttlMs }) => ttlMs, { spare: 2, least: 3 }),
    {
      title: 'WANTED',
      text: ({ wanted }) => (wanted ? 'yes' : ''),
      order: ({ wanted }) => Number(wanted),
      style: () => 'yellow',
      spare: 1,
    },
    { title: 'FENCE', text: ({ fence }) => String(fence), spare: 3 },
  ],
  facts: (row) => [
    ['name', row.label],
    ['namespace', row.namespace],
    ['key', row.key],
    ['holder', leaseHolder(row)],
    ['instance', row.holder.instance],
    ['held for', age(row.heldMs)],
    ['expires in', age(row.expiresInMs)],
    ['ttl', age(row.ttlMs)],
    ['fence', row.fence],
    ['somebody waits', row.wanted ? 'yes' : 'no'],
  ],
})

function leaseHolder({ held, holder }: LeaseGlance): string {
  return held ? whoOf(holder) : 'nobody: kept taken'
}

const schedules = define<ScheduleGlance>({
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
      text: nextOf,
      order: ({ nextInMs, paused }) => (nextInMs === null || paused ? null : -nextInMs),
      style: ({ nextInMs }) => (nextInMs ?? 0) < -overdueMs && 'red',
      least: 9,
    },
    { title: 'RULE', text: ({ rule }) => ruleInWords(rule), spare: 1 },
    {
      title: 'LAST',
      text: ({ last }) => (last ? `${last.state} ${age(last.agoMs)} ago` : ''),
      style: ({ last }) => (last?.state === 'failed' || last?.state === 'broken') && 'red',
      least: 12,
    },
    time('TOOK', ({ last }) => last?.tookMs ?? null, { text: ({ last }) => exact(last?.tookMs ?? null), spare: 3 }),
    count('MEMBERS', ({ members }) => members, { style: ({ members }) => members === 0 && 'red', spare: 2 }),
    { title: 'STATE', text: stateOfSchedule, style: () => 'yellow' },
  ],
  facts: (row, schema) => [
    ['schedule', row.name],
    ['namespace', row.namespace],
    ['rule', ruleInWords(row.rule) + (row.overridden ? ', by an operator' : '')],
    ['next', row.nextAt ? `${row.nextAt.toISOString()}, ${nextOf(row)}` : null],
    ['state', stateOfSchedule(row) || 'it ticks'],
    ['members', row.members],
    ['last tick', row.last?.tick.toISOString() ?? null],
    ['ended', row.last ? `${row.last.state} ${age(row.last.agoMs)} ago` : null],
    ['took', exact(row.last?.tookMs ?? null) || '-'],
    ['run by', row.last?.instance ?? null],
    ['more', commandFor('schedule show', elsewhere(row.namespace, schema), row.name)],
  ],
})

/** Later than that somebody would have taken a tick. */
const overdueMs = 5_000

function nextOf({ nextInMs, paused }: ScheduleGlance): string {
  if (nextInMs === null || paused) return '-'
  if (nextInMs < -overdueMs) return `overdue ${age(-nextInMs)}`
  return nextInMs <= 0 ? 'now' : `in ${age(nextInMs)}`
}

function stateOfSchedule({ running, paused, members, overridden }: ScheduleGlance): string {
  if (running > 0) return running > 1 ? `${running} run` : 'runs'
  if (paused) return 'paused'
  if (members === 0) return 'orphan'
  return overridden ? 'overridden' : ''
}

const queues = define<QueueGlance>({
  title: 'QUEUES',
  rows: ({ queues }) => queues,
  total: ({ counts }) => counts.queues,
  id: ({ key }) => key,
  listedBy: 'holdfast queue ls',
  columns: [
    { title: 'QUEUE', text: queueName },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 6 },
    count('READY', ({ ready }) => ready, { text: readyOf }),
    count('RUNNING', ({ running }) => running, { spare: 1 }),
    count('WAITING', ({ waiting }) => waiting, { text: waitingOf, spare: 2 }),
    time('OLDEST', ({ oldestMs }) => oldestMs),
    count('DONE/S', ({ donePerSecond }) => donePerSecond),
    { ...latency('WAITED', ({ waited }) => waited), least: 11 },
    { ...latency('TOOK', ({ took }) => took), least: 11, spare: 3 },
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
    ['ready', row.readyIs === 'estimated' ? `${readyOf(row)}, by the statistics of the planner` : readyOf(row)],
    ['running', row.running],
    ['waiting', waitingOf(row)],
    ['oldest', age(row.oldestMs) || '-'],
    ['workers', row.workers],
    ['done a second', row.donePerSecond],
    ['waited p50/p99', latencyOf(row.waited) || '-'],
    ['took p50/p99', latencyOf(row.took) || '-'],
    ['buried lately', row.buried],
    ['more', row.name === null ? commandFor('queue ls', { schema }) : jobsOf(row.name, row.namespace, schema)],
  ],
})

function jobsOf(queue: string, namespace: string | null, schema: string): string {
  return `${commandFor('job ls', elsewhere(namespace, schema))} --queue ${shellWord(queue)}`
}

function queueName({ name, key }: QueueGlance): string {
  return name ?? `key ${key}`
}

function readyOf({ ready, readyIs }: QueueGlance): string {
  if (readyIs === 'at least') return `${ready - 1}+`
  return readyIs === 'estimated' ? `~${short(ready)}` : String(ready)
}

function waitingOf({ waiting }: QueueGlance): string {
  return waiting > 1_000 ? '1000+' : String(waiting)
}

function stateOfQueue({ pausedMs, workers, ready, waiting }: QueueGlance): string {
  if (pausedMs !== null) return 'paused'
  return workers === 0 && ready + waiting > 0 ? 'no workers' : ''
}

function latency(title: string, of: (row: QueueGlance) => Latency | null): Column<QueueGlance> {
  return { title, text: (row) => latencyOf(of(row)), order: (row) => of(row)?.p99Ms ?? null }
}

function latencyOf(latency: Latency | null): string {
  return latency === null ? '' : `${exact(latency.p50Ms)}/${exact(latency.p99Ms)}`
}

const trouble = define<Trouble>({
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
    { title: 'WHAT', text: ({ kind }) => troubles[kind], style: () => 'red' },
    { title: 'NAMESPACE', text: ({ namespace }) => namespace ?? '-', spare: 3 },
    { title: 'WHERE', text: ({ subject }) => subject },
    { title: 'JOB', text: ({ job }) => (job === null ? '' : String(job)), spare: 2 },
    { title: 'WHY', text: ({ detail }) => detail, least: 40 },
    { title: 'INSTANCE', text: ({ instance }) => instance ?? '', spare: 1 },
  ],
  facts: (row, schema) => [
    ['what', troubles[row.kind]],
    ['where', row.subject],
    ['namespace', row.namespace],
    ['when', row.at ? `${row.at.toISOString()}, ${age(row.agoMs)} ago` : 'now'],
    ['job', row.job],
    ['instance', row.instance],
    ['why', row.detail],
    ...(row.job === null ? [] : [['more', commandFor('job show', { schema }, String(row.job))] as [string, string]]),
  ],
})

const troubles: Record<Trouble['kind'], string> = {
  buried: 'job buried',
  failed: 'run failed',
  broken: 'run broken',
  gap: 'ticks missed',
  lease: 'lease lost',
  life: 'life lost',
  gone: 'instance gone',
}

export const panels: readonly Panel[] = [instances, locks, leases, schedules, queues, trouble]

/** `1.2M`: an estimate has no last digits. */
function short(many: number): string {
  if (many < 1e4) return String(Number(many.toPrecision(2)))
  return many < 1e6 ? `${Number((many / 1e3).toPrecision(2))}k` : `${Number((many / 1e6).toPrecision(2))}M`
}
