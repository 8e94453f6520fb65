// An instance of the fleet. It uses all features at its share of the week's pace, until it receives 'leave' or is killed.
// Messages over IPC: first { url, dayMs, stays, plant }, then 'sample' and 'leave'.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineJob, Holdfast, HoldfastError, JobFailedError } from 'holdfast'
import { dashboard } from 'holdfast/dashboard'
import pg from 'pg'
import { instances, week, weekMs } from './week.ts'

/** Options of every instance. */
export interface MemberOptions {
  url: string
  dayMs: number
  plant: string | undefined
}

export interface Counts {
  done: Record<string, number>
  refused: Record<string, number>
}

export interface Sample extends Counts {
  heap: number
  rss: number
  sockets: number
  timers: number
}

// The process ends when the process that started it ends.
process.on('disconnect', () => process.exit())
const [options] = await once(process, 'message')
const { url, dayMs, stays, plant }: MemberOptions & { stays: boolean } = options

/** How often each operation was completed, and how often it was rejected because of the replacements and cut connections. */
const done: Counts['done'] = {}
const refused: Counts['refused'] = {}
const count = (what: string, of = done) => {
  of[what] = (of[what] ?? 0) + 1
}
const kept: object[] = []
/** With `--plant handles`, keeps the handle and some memory, as a careless program would. */
const keep = (handle: object) => {
  if (plant === 'handles') kept.push({ handle, memory: new Array(16_384).fill(kept.length) })
}

// Tasks that run once an hour at a random time run immediately, because half a minute here stands for half a day.
const { random } = Math
Math.random = () => 0
const holdfast = await opened()
const pool = new pg.Pool({ connectionString: url, max: 3, application_name: 'holdfast soak' })
pool.on('error', () => {})

const ran = (kind: string) => () => count(`job ${kind}`)
const mail = defineJob<{ to: string } | { tick: string }>('mail', { run: ran('mail') })
const sync = defineJob('sync', { lanes: { max: 2, rate: '50/s' }, run: ran('sync') })
const invoice = defineJob('invoice', { run: ran('invoice') })
const flaky = defineJob('flaky', {
  retry: { attempts: 3, backoff: 50, maxBackoff: 200 },
  run: () => {
    if (Math.random() < 0.5) throw new Error('fails half of the time')
    count('job flaky')
  },
})
const page = defineJob('page', { run: ran('page') })
const index = defineJob('index', {
  run: async (_, job) => {
    await job.parents()
    count('job index')
  },
})
holdfast.jobs.work([mail, sync, invoice, flaky, page, index], { concurrency: 10 })

const schedules = Math.round(week.ticks / (weekMs / 1_000))
for (let at = 1; at < schedules; at++) {
  holdfast.schedules.add(`minutely ${at}`, { every: '1s' }, (run) => {
    if (at === 1) run.log('started')
    count('ticks')
  })
}
holdfast.schedules.add('minutely mail', { every: '1s', job: mail, input: (tick) => ({ tick: tick.toISOString() }) })

holdfast.elections.campaign('indexer', async ({ signal }) => {
  count('terms')
  await sleep(dayMs, undefined, { signal }).catch(() => {})
})
// A name that no other instance uses. A killed instance leaves its membership of this name behind.
const feeds = Array.from({ length: 12 }, (_, at) => `feed ${at}`)
holdfast.shares.assign(`feeds of ${holdfast.id}`, feeds, (_, { signal }) => untilAborted(signal))
holdfast.shares.assign('feeds', feeds, (_, { signal }) => untilAborted(signal))
await sleep(0)
Math.random = random

/** Opens Holdfast. Tries again if another session's end makes the attempt fail. */
async function opened() {
  for (;;) {
    try {
      return await Holdfast.open({ url, jobs: { retain: '1d' }, log: false })
    } catch (error) {
      if (!(error as HoldfastError).retryable) throw error
      count('opening', refused)
    }
  }
}

/** Returns a number that is the same in all instances for a while and never occurs again. */
const lately = (perWeek: number) => Math.floor((Date.now() / weekMs) * perWeek)
const randomBelow = (limit: number) => Math.floor(Math.random() * limit)

const uses = {
  locks: async () => {
    await holdfast.locks.with(`invoice:${lately(14_000)}`, { wait: '5s' }, async (lock) => {
      keep(lock)
      if (Math.random() < 0.2) await inTransaction((client) => lock.guard(client))
    })
  },
  leases: async () => {
    await holdfast.leases.with(`etl:${lately(7_000)}`, { ttl: '2s', wait: '5s' }, async (lease) => {
      keep(lease)
      if (Math.random() < 0.2) await inTransaction((client) => lease.guard(client))
    })
  },
  permits: () => holdfast.limits.with(`export:${lately(1_400)}`, { max: 2, wait: '5s' }, keep),
  rates: () => holdfast.limits.consume(`api:${lately(1_400)}`, { rate: '100/s', burst: 20 }),
  deliveries: () => holdfast.once.run(`stripe:${lately(17_500)}`, { retain: '1d', wait: '5s' }, () => ({ paid: true })),
  jobs: async () => {
    const { id } = (await enqueueOne(randomBelow(10)))!
    // Waits for the result, so that a busy machine finishes the week later and does not get a growing backlog.
    await holdfast.jobs.result(id).catch((error) => {
      if (!(error instanceof JobFailedError)) throw error
    })
  },
  elections: async () => {
    const name = `tenant:${lately(week.elections)}`
    await new Promise<void>((resolve, reject) => {
      const campaign = holdfast.elections.campaign(name, () => {
        setImmediate(() => campaign.close().then(resolve, reject))
      })
      setTimeout(() => campaign.close().then(resolve, reject), 2_000)
    })
  },
}
function enqueueOne(kind: number) {
  const { jobs } = holdfast
  if (kind < 4) return jobs.enqueue(mail, { to: 'ada@example.com' }, kind === 0 ? { delay: 500 } : {})
  if (kind < 6) return jobs.enqueue(sync, null, { lane: `shop:${lately(700)}` })
  if (kind === 6) return jobs.enqueue(invoice, null, { unique: { key: `${lately(3_500)}`, for: '1d' } })
  if (kind === 7) return jobs.enqueue(invoice, null, { unique: `ended ${lately(3_500)}` })
  if (kind === 8) return jobs.enqueue(flaky)
  return jobs
    .enqueueWorkflow((workflow) => {
      const pages = [1, 2].map(() => workflow.add(page))
      workflow.add(index, null, { after: pages, ifFailed: 'run' })
    })
    .then((whole) => whole.jobs.at(-1))
}

const places = Array.from({ length: 20 }, (_, at) => `city ${at}`)
const timers = Object.entries(uses).map(([what, use]) =>
  steadily(what, week[what as keyof typeof uses] / instances, use),
)
timers.push(
  // Every instance takes part in every round.
  steadily('rounds', week.rounds / instances, () =>
    holdfast.shares.each('cities', places, { round: `${lately(week.rounds / instances)}` }, () => {}),
  ),
)
if (stays) timers.push(steadily('visits', week.visits, visit))

let board: ReturnType<typeof dashboard> | undefined
const views = ['now', 'names', 'jobs', 'schedules', 'deliveries', 'limits', 'instances']

/** Loads every dashboard view and runs the doctor. */
async function visit() {
  board ??= dashboard({ url })
  const opened = board
  const load = (path: string) =>
    opened
      .fetch(new Request(`http://localhost/api/${path}`), { remoteAddress: '127.0.0.1' })
      .then((response) => response.text())
  for (const view of views) await load(`view/${view}`)
  await holdfast.doctor()
}

const maxRunning = 5

/** Starts an operation `perWeek` times per simulated week, with at most five at the same time. */
function steadily(what: string, perWeek: number, use: () => Promise<unknown>) {
  let running = 0
  return setInterval(async () => {
    if (running >= maxRunning) return
    running++
    try {
      await use()
      count(what)
    } catch (error) {
      const known = error as Error & { code: string }
      if (!(error instanceof HoldfastError) && !isOfDriver(known)) throw error
      count(`${what}, ${known.code}`, refused)
    } finally {
      running--
    }
  }, weekMs / perWeek)
}

const isOfDriver = ({ code, message }: Error & { code: string }) =>
  /^[0-9A-Z]{5}$|^ECONN/.test(code) || /terminat|closed/i.test(message)

async function inTransaction(work: (client: pg.PoolClient) => Promise<void>) {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await work(client)
    await client.query('commit')
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
}

function untilAborted(signal: AbortSignal) {
  return new Promise<void>((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

function sample(): Sample {
  globalThis.gc?.()
  const { heapUsed, rss } = process.memoryUsage()
  const handles = process.getActiveResourcesInfo()
  const countOf = (kind: string) => handles.filter((one) => one === kind).length
  return { heap: heapUsed, rss, sockets: countOf('TCPSocketWrap'), timers: countOf('Timeout'), done, refused }
}

async function leave() {
  timers.forEach(clearInterval)
  await holdfast.drain({ within: '5s' })
  await board?.close()
  // In production, one of sixty writes sweeps.
  await (holdfast as unknown as { samples: { sweep(): Promise<void> } }).samples.sweep()
  await holdfast.close()
  await pool.end()
  process.send?.({ left: sample() })
  process.disconnect()
}

process.on('message', (order) => {
  if (order === 'sample') process.send?.({ sample: sample() })
  if (order === 'leave') {
    leave().catch((cause) => {
      throw new Error('The instance could not close', { cause })
    })
  }
})
process.send?.('open')
