import { defaultTimes, didYouMean, formatDuration } from '../base/index.js'
import type { FleetInstance, InstanceWork, Observer } from '../observe/index.js'
import { act, formatCount, formatList, inapplicable, joinSentences } from './act.js'

export const instances = {
  'drain-instance': act({
    needs: { id: 'text' },
    /** `within` is the time, in seconds, allowed for running work to finish. */
    params: { within: { number: [0, 2_147_483] } },
    async preview({ observer }, { id, within = defaultTimes.drainWithinMs / 1_000 }) {
      const found = await observer.fleet.find(id)
      const work = await observer.fleet.workOf(id)
      const subject = `instance ${found?.name ?? id}`
      if (!found?.alive || !work) return inapplicable(subject, await lostText(observer, id, found))
      if (found.state !== 'open') return inapplicable(subject, drainingText(found))
      const runs = runsOf(work)
      const text = joinSentences(
        `${found.name} permanently stops accepting new work: jobs, ticks, deliveries and leaderships.`,
        runs.length === 0
          ? work.searchedDeliveries === null
            ? 'No work is currently running there.'
            : 'No running work was found there.'
          : `Currently running there: ${formatList(runs)}. This work has ${formatDuration(within * 1_000)} to finish. Then the signals of unfinished work abort, and other instances take over this work.`,
        work.searchedDeliveries !== null &&
          `Only the latest ${formatCount(work.searchedDeliveries, 'delivery', 'deliveries')} were searched, so older deliveries may be running there.`,
        'The instance releases its locks when its work has finished. The process keeps running until its own code ends it.',
      )
      return { subject, text, applies: true, dangerous: runs.length > 0, facts: factsOf(work) }
    },
    async run({ observer, operator }, { id, within }) {
      const before = await observer.fleet.find(id)
      const isRequested =
        before?.alive === true && (await operator.requestDrain(id, within === undefined ? undefined : within * 1_000))
      // If the instance dies between the request and this read, its row has expired. If the instance closes cleanly,
      // its row has been deleted.
      const now = await observer.fleet.find(id)
      const found = now ?? before
      const state = !found?.alive
        ? 'lost'
        : !now && isRequested
          ? 'drained'
          : found.state === 'open'
            ? 'asked'
            : found.state
      const result = { instance: id, name: found?.name ?? null, state }
      if (!found || (!isRequested && !found.alive))
        return { done: false, text: await lostText(observer, id, found), result }
      return { done: true, text: isRequested ? `Asked ${found.name} to drain.` : drainingText(found), result }
    },
  }),
}

async function lostText(observer: Observer, id: string, found: FleetInstance | null): Promise<string> {
  return found ? `Instance ${found.name} is lost.` : noSuchInstance(observer, id)
}

export async function noSuchInstance(observer: Observer, idOrName: string): Promise<string> {
  const { rows } = await observer.fleet.list()
  return joinSentences(
    `There is no instance ${JSON.stringify(idOrName)}.`,
    didYouMean(
      idOrName,
      rows.map(({ name }) => name),
    ),
    'Run `holdfast instance ls` to list all instances.',
  )
}

function drainingText(found: FleetInstance): string {
  return `${found.name} is already ${found.state === 'drained' ? 'drained' : 'draining'}.`
}

function runsOf({ jobs, runs, deliveries }: InstanceWork): string[] {
  return [
    jobs.length > 0 && formatCount(jobs.length, 'job'),
    runs.length > 0 && formatCount(runs.length, 'run of a schedule', 'runs of schedules'),
    deliveries.length > 0 && formatCount(deliveries.length, 'delivery', 'deliveries'),
  ].filter((text) => text !== false)
}

function factsOf(work: InstanceWork): (readonly [string, string])[] {
  const labels = (names: InstanceWork['holds' | 'leases']) => names.map(({ label, key }) => label ?? `key ${key}`)
  const facts: (readonly [string, readonly string[]])[] = [
    ['Jobs', work.jobs.map(({ kind, id }) => `${kind} (${id})`)],
    ['Ticks', work.runs.map(({ name }) => name)],
    ['Deliveries', work.deliveries.map(({ key }) => key)],
    ['Leads', work.leads.map(({ name }) => name)],
    ['Holds', labels(work.holds)],
    ['Leases', labels(work.leases)],
    ['Workers', work.workers.length > 0 ? [String(work.workers.length)] : []],
  ]
  return facts.filter(([, names]) => names.length > 0).map(([label, names]) => [label, formatList(names)])
}
