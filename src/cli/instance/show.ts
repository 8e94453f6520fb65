import { noSuchInstance, times } from '../../acts/index.js'
import { formatDuration } from '../../base/index.js'
import { maxDeliveriesSearched, nameLabel, type Observer } from '../../observe/index.js'
import { observe } from '../connect.js'
import { conditionNotMet, printMessage } from '../failure.js'
import { stateOf } from '../labels.js'
import { countText, type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'
import { findInstance } from './find.js'

const maxShown = 1_000

export async function instanceShow(settings: Settings, word: string): Promise<void> {
  const { details, now, missing } = await observe(settings, async (observer) => {
    const details = await instanceDocument(observer, word, settings.name('namespace'))
    return { details, now: await observer.now(), missing: details ? '' : await noSuchInstance(observer, word) }
  })
  if (!printDocument<'instance-show'>(settings, details) && details) printFacts(settings, factsOf(details, now))
  if (details && details.searchedDeliveries !== null)
    printMessage(
      `Only the latest ${details.searchedDeliveries} deliveries were searched, so older deliveries may be running.`,
    )
  if (!details) conditionNotMet(missing)
}

/** Reads an instance and everything that it holds, waits for or is running. `word` is the ID or the name. */
export async function instanceDocument(observer: Observer, word: string, namespace: string | undefined) {
  const found = await findInstance(observer, word, namespace)
  if (!found) return null
  const { id } = found
  const ownedByInstance = <T extends { readonly instance: string | null }>(all: readonly T[]) =>
    all.filter(({ instance }) => instance === id)
  const locks = ownedByInstance(await observer.locks())
  const work = await observer.fleet.workOf(id, maxShown)
  if (!work) return null
  const { jobs, runs, leads, permits } = work
  // The limit applies to the deliveries of all instances, so a smaller limit could hide those of this instance.
  const deliveries = await observer.deliveries.search({ states: ['in-flight'], limit: maxDeliveriesSearched })
  return {
    ...found,
    holds: locks.filter(({ granted }) => granted),
    waits: locks.filter(({ granted }) => !granted),
    leases: ownedByInstance(await observer.leases()),
    permits,
    leads,
    jobs: jobs.map((job) => ({ ...job, id: Number(job.id) })),
    runs,
    deliveries: ownedByInstance(deliveries.rows),
    searchedDeliveries: deliveries.searchedRows,
  }
}

type InstanceDetails = NonNullable<Awaited<ReturnType<typeof instanceDocument>>>

const stateTexts: Record<string, string> = {
  'drain-requested': 'asked to drain: the instance has not received the request yet',
  draining: 'draining: the instance is not starting new work, and its running work may finish',
  drained: 'drained: all its work has ended, and its process is still running',
}

function factsOf(details: InstanceDetails, now: Date): Fact[] {
  const { id, name, namespace, host, osPid, version, node, reconnects, forMs, pid, pooler, expiryMs } = details
  const state = stateOf(details)
  const since = (ms: number | null) => (ms === null ? '' : `, for ${formatDuration(ms)}`)
  const upTo = (at: Date) => since(Math.max(0, now.getTime() - at.getTime()))
  return [
    ['name', name],
    ['id', id],
    ['state', stateTexts[state] ?? state],
    ['namespace', namespace],
    ['process', `${osPid} on ${host}`],
    ['open for', formatDuration(forMs) + (reconnects > 0 ? `, reconnected ${times(reconnects)}` : '')],
    ['version', `${version}${node ? `, Node.js ${node}` : ''}`],
    [
      'anchor',
      pid === null ? `none: the instance renews its row at least every ${formatDuration(expiryMs)}` : `session ${pid}`,
    ],
    ['pooler', pooler],
    ...details.holds.map((lock): Fact => ['holds', `${nameLabel(lock)}, ${lock.mode}${since(lock.forMs)}`]),
    ...details.waits.map((lock): Fact => ['waits for', `${nameLabel(lock)}, ${lock.mode}${since(lock.forMs)}`]),
    ...details.leases
      .filter(({ held }) => held)
      .map((lease): Fact => ['leases', nameLabel(lease) + since(lease.forMs)]),
    ...details.permits.map((permit): Fact => {
      const permits = `${countText(permit.weight, 'permit')} of ${permit.name}`
      return [permit.granted ? 'holds' : 'waits for', permits + upTo(permit.since)]
    }),
    ...details.leads.map((election): Fact => ['leads', election.name + upTo(election.since)]),
    ...details.jobs.map((job): Fact => ['runs', `job ${job.id}, ${job.kind}${upTo(job.since)}`]),
    ...details.runs.map((run): Fact => ['runs', `${run.name}, its tick ${run.tick.toISOString()}${upTo(run.since)}`]),
    ...details.deliveries.map((delivery): Fact => ['runs', `delivery ${delivery.key}${since(delivery.forMs)}`]),
  ]
}
