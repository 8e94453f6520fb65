import { formatDuration } from '../../base/index.js'
import type { FleetInstance, InstanceWork, Observer } from '../../observe/index.js'
import { act } from '../act.js'

/** What an instance gives its runs when nobody says otherwise. */
const usualSeconds = 30

/** What may be done on the page of instances. */
export const instances = {
  /** Has an instance take no new work, for good, and let what runs come to its end. */
  'drain-instance': act({
    needs: { id: 'text' },
    params: { within: { number: [0, 86_400] } },
    async preview({ observer }, { id, within = usualSeconds }) {
      const { found, work } = await lookAt(observer, id)
      const subject = `instance ${found ? calledOf(found) : id}`
      if (!found?.alive || !work) return { subject, says: goneOf(id, found), grave: false }
      if (found.state !== 'open') return { subject, says: leavesOf(found), grave: false }
      const runs = runsOf(work)
      const stops = `What takes longer than ${formatDuration(within * 1_000)} is told to stop, and goes to the others.`
      const now =
        runs.length === 0
          ? 'Nothing runs there now.'
          : `${runs.join(', ')} ${runs.length === 1 && runs[0]!.startsWith('1 ') ? 'runs' : 'run'} there now, and may come to an end. ${stops}`
      return {
        subject,
        says:
          `${calledOf(found)} takes no new work, for good: no job, no tick, no delivery, no leadership. ${now} ` +
          'What it holds it lets go as its own work ends. Its process lives on until its own code ends it.',
        grave: runs.length > 0,
        facts: factsOf(work),
      }
    },
    async run({ observer, operator }, { id, within }) {
      const { found } = await lookAt(observer, id)
      if (!found?.alive) return { done: false, says: goneOf(id, found) }
      const isAsked = await operator.requestDrain(id, within === undefined ? undefined : within * 1_000)
      if (isAsked) return { done: true, says: `Asked ${calledOf(found)} to drain.` }
      const { found: now } = await lookAt(observer, id)
      return { done: false, says: now?.alive ? leavesOf(now) : goneOf(id, now) }
    },
  }),
}

async function lookAt(
  observer: Observer,
  id: string,
): Promise<{ found: FleetInstance | undefined; work: InstanceWork | null }> {
  const { rows } = await observer.fleet.list({ search: id })
  return { found: rows.find((instance) => instance.id === id), work: await observer.fleet.workOf(id) }
}

function calledOf({ host, osPid }: FleetInstance): string {
  return `${host}/${osPid}`
}

function goneOf(id: string, found: FleetInstance | undefined): string {
  return found ? `${calledOf(found)} is gone: there is nobody to ask.` : `There is no instance ${id} any more.`
}

function leavesOf(found: FleetInstance): string {
  return found.state === 'drained'
    ? `${calledOf(found)} is drained already.`
    : `${calledOf(found)} is draining already.`
}

/** What would have to come to its end. */
function runsOf({ jobs, runs, deliveries }: InstanceWork): string[] {
  return [
    counted(jobs.length, 'job', 'jobs'),
    counted(runs.length, 'run of a schedule', 'runs of schedules'),
    counted(deliveries.length, 'delivery', 'deliveries'),
  ].filter((text) => text !== null)
}

function factsOf(work: InstanceWork): (readonly [string, string])[] {
  const named = work.holds.map(({ label, key }) => label ?? `key ${key}`)
  const facts: [string, string | null][] = [
    ['Jobs', listed(work.jobs.map(({ kind, id }) => `${kind} (${id})`))],
    ['Ticks', listed(work.runs.map(({ name }) => name))],
    ['Deliveries', listed(work.deliveries.map(({ key }) => key))],
    ['Leads', listed(work.leads.map(({ name }) => name))],
    ['Holds', listed(named)],
    ['Leases', listed(work.leases.map(({ label, key }) => label ?? `key ${key}`))],
    ['Workers', work.workers.length > 0 ? String(work.workers.length) : null],
  ]
  return facts.filter((fact): fact is [string, string] => fact[1] !== null)
}

const mostNamed = 5

function listed(names: readonly string[]): string | null {
  if (names.length === 0) return null
  const first = names.slice(0, mostNamed).map((name) => name.slice(0, 100))
  return first.join(', ') + (names.length > mostNamed ? ` and ${names.length - mostNamed} more` : '')
}

function counted(n: number, one: string, many: string): string | null {
  return n === 0 ? null : `${n} ${n === 1 ? one : many}`
}
