import { commandFor, formatDuration } from '../base/index.js'
import { type BusyQueue, mostCounted } from '../observe/index.js'
import { arrayOf } from '../postgres/index.js'
import { counted, type Finding, finding, listed, mostTold } from './finding.js'
import type { Check, Patient } from './patient.js'

/** Jobs of one kind that have been ready for long, and that no worker claims. */
interface Unserved {
  queue: string
  kind: string
  jobs: number
  for_ms: number
  /** Whether no worker serves the queue, or none of its workers has the kind. */
  unserved: 'queue' | 'kind'
}

/** Jobs that nobody will run unless somebody does something. */
export const queues: Check = {
  name: 'queues, their workers and their jobs',
  needsSchema: true,
  async look(patient): Promise<Finding[]> {
    const { rows: all } = await patient.observer.work.queues()
    const open = all.filter(({ ready, pausedAt }) => ready > 0 && pausedAt === null)
    const keys = arrayOf(open.map(({ key }) => key))
    const late = await patient.ask<Unserved>('unserved', [keys, patient.patienceMs])
    const lateFor = (unserved: Unserved['unserved']) =>
      open
        .map((queue) => ({ queue, jobs: late.filter((one) => one.queue === queue.key && one.unserved === unserved) }))
        .filter(({ jobs }) => jobs.length > 0)
        .slice(0, mostTold)
    return [
      ...lateFor('queue').map(({ queue, jobs }) => unattended(queue, jobs)),
      ...lateFor('kind').map(({ queue, jobs }) => unhandled(queue, jobs)),
      ...all
        .filter(({ pausedForMs, ready, waiting }) => (pausedForMs ?? 0) > patient.patienceMs && ready + waiting > 0)
        .slice(0, mostTold)
        .map((queue) => paused(patient, queue)),
      ...all
        .filter(({ buried }) => buried > 0)
        .slice(0, mostTold)
        .map((queue) => buried(patient, queue)),
    ]
  },
}

const called = ({ name, namespace, key }: BusyQueue) =>
  name === null ? `The queue with the key ${key}` : `The queue ${name} (namespace ${namespace})`

const many = (jobs: number, what: string) =>
  jobs > mostCounted ? `more than ${counted(mostCounted, `${what} job`)}` : counted(jobs, `${what} job`)

const facts = ({ name, namespace, key }: BusyQueue) => ({ queue: name, namespace, key })

/** Who has no name cannot be called by it. */
function commands({ schema }: Patient, words: string, { name, namespace }: BusyQueue): string[] {
  return name === null ? [] : [commandFor(words, { namespace, schema }, name)]
}

function unattended(queue: BusyQueue, late: readonly Unserved[]): Finding {
  const forMs = Math.max(...late.map(({ for_ms }) => for_ms))
  return finding({
    id: 'queue-unattended',
    severity: 'risky',
    subject: queue.name ?? queue.key,
    seen: `${called(queue)} has ${many(queue.ready, 'ready')}, the oldest for ${formatDuration(forMs)}, and nobody works on it`,
    why: 'They wait until somebody does.',
    facts: { ...facts(queue), ready: queue.ready, for_ms: Math.round(forMs) },
    mend: {
      what: `Start a worker with the definitions of ${listed(late.map(({ kind }) => kind))}: jobs.work([…]), or \`holdfast work FILE\`.`,
    },
  })
}

function unhandled(queue: BusyQueue, late: readonly Unserved[]): Finding {
  const kinds = listed(late.map(({ kind, jobs }) => `${kind} (${jobs})`))
  return finding({
    id: 'kind-unhandled',
    severity: 'risky',
    subject: queue.name ?? queue.key,
    seen: `${called(queue)} has workers, and jobs that none of them can claim. They have been ready for ${formatDuration(late[0]!.for_ms)}: ${kinds}`,
    why: 'No worker of the queue has a definition of these kinds; they wait until one has.',
    facts: { ...facts(queue), kinds: late.map(({ kind }) => kind).join(', '), for_ms: Math.round(late[0]!.for_ms) },
    mend: {
      what: `Give ${listed(late.map(({ kind }) => kind))} to a worker; or cancel the jobs, where the definition is gone for good.`,
    },
  })
}

function paused(patient: Patient, queue: BusyQueue): Finding {
  return finding({
    id: 'paused-queue',
    severity: 'note',
    subject: queue.name ?? queue.key,
    seen: `${called(queue)} has been paused for ${formatDuration(queue.pausedForMs!)}, with ${many(queue.ready + queue.waiting, 'waiting')} in it`,
    why: 'Somebody may have forgotten it.',
    facts: { ...facts(queue), ready: queue.ready, waiting: queue.waiting, for_ms: queue.pausedForMs },
    mend: { what: 'Resume it.', commands: commands(patient, 'queue resume', queue) },
  })
}

function buried(patient: Patient, queue: BusyQueue): Finding {
  return finding({
    id: 'buried-jobs',
    severity: 'note',
    subject: queue.name ?? queue.key,
    seen: `${called(queue)} has ${many(queue.buried, 'buried')}`,
    why: 'They have failed for good, and are forgotten when their time is over.',
    facts: { ...facts(queue), buried: queue.buried },
    mend: {
      what: 'See why with `holdfast job ls --state buried`; when the cause is mended, let them run again.',
      commands: commands(patient, 'queue redrive --yes', queue),
    },
  })
}
