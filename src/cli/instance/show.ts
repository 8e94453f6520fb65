import { noSuchInstance } from '../../acts/index.js'
import { formatDuration } from '../../base/index.js'
import { called, Observer } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'
import { stateOf } from '../who.js'

const mostShown = 1_000

export async function instanceShow(settings: Settings, id: string): Promise<void> {
  const [answer, now] = await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    return [await look(observer, id), await observer.now()] as const
  })
  if (!printDocument<'instance-show'>(settings, answer) && answer) printFacts(settings, factsOf(answer, now))
  if (answer) return
  say(noSuchInstance(id))
  throw new Exit(exitCode.conditionNotMet)
}

/** Its row, and what it has to do with names, jobs and deliveries now. */
async function look(observer: Observer, id: string) {
  const found = await observer.fleet.find(id)
  if (!found) return null
  const ofIt = <T extends { readonly instance: string | null }>(all: readonly T[]) =>
    all.filter(({ instance }) => instance === id)
  const locks = ofIt(await observer.locks())
  const work = await observer.fleet.workOf(id, mostShown)
  if (!work) return null
  const { jobs, runs, leads, permits } = work
  return {
    ...found,
    holds: locks.filter(({ granted }) => granted),
    waits: locks.filter(({ granted }) => !granted),
    leases: ofIt(await observer.leases()),
    permits,
    leads,
    jobs: jobs.map((job) => ({ ...job, id: Number(job.id) })),
    runs,
    deliveries: ofIt((await observer.deliveries.search({ states: ['in-flight'], limit: mostShown })).rows),
  }
}

type Answer = NonNullable<Awaited<ReturnType<typeof look>>>

const told: Record<string, string> = {
  asked: 'asked to drain, and has not heard of it yet',
  draining: 'draining: it takes no new work, and lets what runs come to its end',
  drained: 'drained: nothing of its work is left, and it lives until its process ends',
}

function factsOf(answer: Answer, now: Date): Fact[] {
  const { id, namespace, host, osPid, version, node, lives, forMs, pid, pooler, expiryMs } = answer
  const state = stateOf(answer)
  const since = (ms: number | null) => (ms === null ? '' : `, for ${formatDuration(ms)}`)
  const upTo = (at: Date) => since(Math.max(0, now.getTime() - at.getTime()))
  return [
    ['instance', id],
    ['state', told[state] ?? state],
    ['namespace', namespace],
    ['process', `${osPid} on ${host}`],
    ['open for', formatDuration(forMs) + (lives > 1 ? `, in its life ${lives}` : '')],
    ['version', `${version}${node ? `, Node.js ${node}` : ''}`],
    ['anchor', pid === null ? `none: it renews its row within ${formatDuration(expiryMs)}` : `session ${pid}`],
    ['pooler', pooler],
    ...answer.holds.map((lock): Fact => ['holds', `${called(lock)}, ${lock.mode}${since(lock.forMs)}`]),
    ...answer.waits.map((lock): Fact => ['waits for', `${called(lock)}, ${lock.mode}${since(lock.forMs)}`]),
    ...answer.leases.filter(({ held }) => held).map((lease): Fact => ['leases', called(lease) + since(lease.forMs)]),
    ...answer.permits.map((permit): Fact => {
      const of = `${permit.weight === 1 ? '1 permit' : `${permit.weight} permits`} of ${permit.name}`
      return [permit.granted ? 'holds' : 'waits for', of + upTo(permit.since)]
    }),
    ...answer.leads.map((election): Fact => ['leads', election.name + upTo(election.since)]),
    ...answer.jobs.map((job): Fact => ['runs', `job ${job.id}, ${job.kind}${upTo(job.since)}`]),
    ...answer.runs.map((run): Fact => ['runs', `${run.name}, its tick ${run.tick.toISOString()}${upTo(run.since)}`]),
    ...answer.deliveries.map((delivery): Fact => ['runs', `delivery ${delivery.key}${since(delivery.forMs)}`]),
  ]
}
