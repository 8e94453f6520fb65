import { commandLine, formatDuration, shellQuote } from '../base/index.js'
import { maxCounted, type ObservedQueue } from '../observe/index.js'
import { arrayLiteral } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding, formatCount, formatList, maxListed } from './finding.js'

/** Jobs of one kind that have been ready for longer than their tolerance and that no worker is claiming. */
interface Unserved {
  queue: string
  kind: string
  jobs: number
  for_ms: number
  /** `queue`: no worker serves the queue. `kind`: none of the queue's workers handle this kind of job. */
  unserved: 'queue' | 'kind'
}

/** Finds jobs that no worker will run. */
export const queues: Check = {
  name: 'queues, their workers and their jobs',
  isOfFleet: true,
  needsSchema: true,
  async run(context): Promise<Finding[]> {
    const { rows: all } = await context.observer.jobs.queues()
    const open = all.filter(({ ready, pausedAt }) => ready > 0 && pausedAt === null)
    const keys = arrayLiteral(open.map(({ key }) => key))
    const late = await context.query<Unserved>('unserved_jobs', [keys, context.unservedToleranceMs])
    const lateFor = (unserved: Unserved['unserved']) =>
      open
        .map((queue) => ({ queue, jobs: late.filter((one) => one.queue === queue.key && one.unserved === unserved) }))
        .filter(({ jobs }) => jobs.length > 0)
        .slice(0, maxListed)
    return [
      ...lateFor('queue').map(({ queue, jobs }) => queueUnattended(queue, jobs)),
      ...lateFor('kind').map(({ queue, jobs }) => kindUnhandled(queue, jobs)),
      ...all
        .filter(({ pausedForMs, ready, waiting }) => (pausedForMs ?? 0) > context.toleranceMs && ready + waiting > 0)
        .slice(0, maxListed)
        .map((queue) => pausedQueue(context, queue)),
      ...all
        .filter(({ buried }) => buried > 0)
        .slice(0, maxListed)
        .map((queue) => buriedJobs(context, queue)),
    ]
  },
}

const queueLabel = ({ name, namespace, key }: ObservedQueue) =>
  name === null ? `The queue with the key ${key}` : `The queue ${name} (namespace ${namespace})`

const formatJobs = (jobs: number, what: string) =>
  jobs > maxCounted ? `more than ${formatCount(maxCounted, `${what} job`)}` : formatCount(jobs, `${what} job`)

const facts = ({ name, namespace, key }: ObservedQueue) => ({ queue: name, namespace, key })

/** Returns the command for a queue. Returns no command if the queue's name is unknown. */
function commands({ schema }: DoctorContext, command: string, { name, namespace }: ObservedQueue): string[] {
  return name === null ? [] : [commandLine(command, { namespace, schema }, name)]
}

function queueUnattended(queue: ObservedQueue, late: readonly Unserved[]): Finding {
  const forMs = Math.max(...late.map(({ for_ms }) => for_ms))
  return finding({
    id: 'queue-unattended',
    severity: 'risky',
    subject: queue.name ?? queue.key,
    text: `${queueLabel(queue)} has ${formatJobs(queue.ready, 'ready')} but no worker. The oldest job has been ready for ${formatDuration(forMs)}`,
    why: 'The jobs will not run until a worker serves the queue.',
    facts: { ...facts(queue), ready: queue.ready, for_ms: Math.round(forMs) },
    fix: {
      text: `Start a worker with the definitions of ${formatList(late.map(({ kind }) => kind))}. Use jobs.work([…]) or \`holdfast work FILE\`.`,
    },
  })
}

function kindUnhandled(queue: ObservedQueue, late: readonly Unserved[]): Finding {
  const kinds = formatList(late.map(({ kind, jobs }) => `${kind} (${jobs})`))
  return finding({
    id: 'kind-unhandled',
    severity: 'risky',
    subject: queue.name ?? queue.key,
    text: `${queueLabel(queue)} has jobs that none of its workers handles. These jobs have been ready for up to ${formatDuration(late[0]!.for_ms)}: ${kinds}`,
    why: "None of the queue's workers has a definition for these kinds of jobs. The jobs will not run until such a worker starts.",
    facts: { ...facts(queue), kinds: late.map(({ kind }) => kind).join(', '), for_ms: Math.round(late[0]!.for_ms) },
    fix: {
      text: `Add the definition of ${formatList(late.map(({ kind }) => kind))} to a worker. If the definition was permanently removed, cancel the jobs.`,
    },
  })
}

function pausedQueue(context: DoctorContext, queue: ObservedQueue): Finding {
  return finding({
    id: 'paused-queue',
    severity: 'note',
    subject: queue.name ?? queue.key,
    text: `${queueLabel(queue)} has been paused for ${formatDuration(queue.pausedForMs!)} and contains ${formatJobs(queue.ready + queue.waiting, 'waiting')}`,
    why: 'Someone may have forgotten to resume the queue.',
    facts: { ...facts(queue), ready: queue.ready, waiting: queue.waiting, for_ms: queue.pausedForMs },
    fix: { text: 'Resume the queue.', commands: commands(context, 'queue resume', queue) },
  })
}

function buriedJobs(context: DoctorContext, queue: ObservedQueue): Finding {
  return finding({
    id: 'buried-jobs',
    severity: 'note',
    subject: queue.name ?? queue.key,
    text: `${queueLabel(queue)} has ${formatJobs(queue.buried, 'buried')}`,
    why: 'These jobs have failed permanently. Holdfast deletes the jobs when their retention time ends.',
    facts: { ...facts(queue), buried: queue.buried },
    fix: {
      text: 'Find the cause with `holdfast job ls --state failed`. After the cause has been fixed, run the jobs again.',
      commands:
        queue.name === null
          ? []
          : [
              commandLine(`job retry --yes --state failed --queue=${shellQuote(queue.name)}`, {
                namespace: queue.namespace,
                schema: context.schema,
              }),
            ],
    },
  })
}
