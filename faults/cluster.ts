// The world of a run: a server, a pooler before it, a fleet. It is tormented by the plan, then everybody comes to rest, and then it is
// judged from what the processes wrote down and from the tables.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Holdfast, SessionLocksUnavailableError } from 'holdfast'
import { type EmbeddedServer, startEmbedded } from 'holdfast/embedded'
import pg from 'pg'
import { type Checked, check, type Query } from './check/index.ts'
import { type Asked, Place, within } from './fleet.ts'
import { readHistory, type Write, writeHistory } from './history.ts'
import { faults } from './nemesis.ts'
import { newsMs } from './news.ts'
import { type Planned, planOf, type Step } from './plan.ts'
import { hasPgBouncer, type Pooler, startPooler } from './pooler.ts'
import { rules } from './work/schedules.ts'

const tables = `
create table ledger (id bigint generated always as identity, what text, fence bigint, pid integer);
create table effect (what text, id text, by text, fence bigint);
create table begun (id bigint, fence bigint);
create index on effect (what, id)`

const settings = { max_connections: '150', deadlock_timeout: '200ms', log_min_messages: 'fatal' }

/** Each place opens in its own way: with node-postgres or postgres.js, with an anchor, without one, or through a pooler. */
const manners: (Pick<Asked, 'driver' | 'anchor'> & { pooled?: boolean })[] = [
  { driver: 'pg', anchor: 'required' },
  { driver: 'postgres.js', anchor: 'required' },
  { driver: 'pg', anchor: 'required' },
  { driver: 'pg', anchor: 'none', pooled: true },
  { driver: 'pg', anchor: 'none' },
]

/** One fault in `everyMs`; `patienceMs` is how long coming to rest may take. */
export interface Run extends Planned {
  patienceMs: number
  /** Only in these rooms. */
  only: string[] | undefined
  say(line: string): void
}

export interface Outcome extends Checked {
  seed: number
  seconds: number
  plan: Step[]
  struck: Record<string, number>
  unrest: string[]
}

interface Cluster {
  server: EmbeddedServer
  pooler: Pooler | undefined
  url: string
  expiryMs: number
  places: Place[]
  holdfast: Holdfast
  query: Query
  write: Write
  /** The last values of the sequences fence and job_number at the beginning. */
  backup: [string, string]
}

/** The world, as a fault finds it. */
export interface Torment extends Cluster {
  /** Notes that it takes locks away at once, until the answer is called. */
  ending(pid: string): () => void
}

export async function torment(run: Run): Promise<Outcome> {
  const { seconds, seed, size, expiryMs, everyMs, patienceMs, among, only, say } = run
  const server = await startEmbedded({ settings })
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-faults-'))
  const pooler = hasPgBouncer ? await startPooler(server.url, { roundRobin: true }) : undefined
  const places: Place[] = []
  const closing: (() => Promise<void>)[] = []
  try {
    const url = await server.createDatabase(`faults_${randomBytes(3).toString('hex')}`)
    const holdfast = await Holdfast.open({ url, expiry: expiryMs })
    closing.push(() => holdfast.close())
    const query = asking(url, closing)
    await query(tables)
    for (let number = 0; number < size; number++) {
      const { pooled, ...manner } = manners[number % manners.length]!
      const asked = {
        url: pooled && pooler ? pooler.through(url) : url,
        expiryMs,
        number,
        history: folder,
        only,
        seed,
        ...manner,
      }
      // Clocks that tell the wrong time of day, which must change nothing.
      places.push(await Place.make({ ...asked, clockMs: [0, 3_600_000, -3_600_000][number % 3]! }))
    }
    const write = writeHistory(join(folder, 'nemesis.jsonl'))
    for (const place of places) place.onDeath = (says) => write('wrong', { says })
    await within(60_000, 'Opening the fleet', Promise.all(places.map((place) => place.start())))

    const [numbers] = await query(
      'select fence.last_value as fence, job_number.last_value as job from holdfast.fence, holdfast.job_number',
    )
    const world: Cluster = {
      server,
      pooler,
      url,
      expiryMs,
      places,
      holdfast,
      query,
      write,
      backup: [numbers!.fence, numbers!.job],
    }
    const plan = planOf({ seed, seconds, size, expiryMs, everyMs, among })
    const isOver = new AbortController()
    const knocking = knock(world, isOver.signal)
    const struck = await strike(world, plan, seconds, say)
    isOver.abort()
    await knocking
    say('everybody comes to rest')
    const unrest = await settle(world, patienceMs).then(
      () => [],
      (error) => [String(error.message)],
    )
    const history = await readHistory(folder)
    return { seed, seconds, plan, struck, unrest, ...(await check(history, world, unrest)) }
  } finally {
    for (const place of places) {
      place.thaw()
      await place.kill()
      await place.network.close()
    }
    for (const close of closing) await close().catch(() => {})
    await pooler?.stop()
    await server.stop('immediate')
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Asks on a connection of its own, a new one after each failure. */
function asking(url: string, closing: (() => Promise<void>)[]): Query {
  let client: pg.Client | undefined
  closing.push(async () => client?.end())
  return async (text, values) => {
    if (!client) {
      const opening = new pg.Client({
        connectionString: url,
        application_name: 'judge',
        connectionTimeoutMillis: 10_000,
      })
      opening.on('error', () => {
        if (client === opening) client = undefined
      })
      await opening.connect()
      client = opening
    }
    return (await client.query(text, values)).rows
  }
}

/** Whoever insists on locks of sessions must be refused behind a pooler that does not keep them, whatever else happens meanwhile. */
async function knock({ url, expiryMs, pooler, write }: Cluster, signal: AbortSignal) {
  while (pooler && !signal.aborted) {
    await Holdfast.open({ url: pooler.through(url), expiry: expiryMs, anchor: 'required', migrate: false }).then(
      async (holdfast) => {
        write('wrong', { says: 'locks of sessions were promised behind a pooler in transaction mode' })
        await holdfast.close()
      },
      (error) => {
        if (error instanceof SessionLocksUnavailableError) write('refused')
        else if (!error.retryable) write('wrong', { says: `the pooler was refused with ${error.stack}` })
      },
    )
    await sleep(2_000, undefined, { signal }).catch(() => {})
  }
}

/** After these a process may not hear any more that its session was ended. */
const deafening = new Set(['freeze', 'cut', 'lose an answer', 'delay', 'block'])

/** Does what the plan says, each step at its time. Answers with how often each fault was done. */
async function strike(world: Cluster, plan: Step[], seconds: number, say: (line: string) => void) {
  const from = performance.now()
  /** Resolves when whoever lost a session by an administrator knows it: no lock survives both this and deafness. */
  let heard: Promise<unknown> = Promise.resolve()
  const struck: Record<string, number> = {}
  const busy = new Set<string>()
  const lasting: Promise<void>[] = []
  // One at a time of those that strike the whole server, and of those that strike one place.
  const areaOf = ({ fault, on }: Step) => (on === undefined ? fault : `place ${on}`)
  for (const step of plan) {
    await sleep(Math.max(0, from + step.at - performance.now()))
    const area = areaOf(step)
    if (busy.has(area)) continue
    busy.add(area)
    say(`${(step.at / 1_000).toFixed(1)} s: ${step.fault}${step.on === undefined ? '' : ` of place ${step.on}`}`)
    const begun = (deafening.has(step.fault) ? heard : Promise.resolve()).then(() => begin(world, step))
    if (step.fault === 'terminate') {
      const told = begun.catch(() => {}).then(() => sleep(newsMs))
      heard = Promise.all([heard, told])
    }
    const doing = begun
      .then(async (end) => {
        struck[step.fault] = (struck[step.fault] ?? 0) + 1
        if (typeof end !== 'function') return
        await sleep(step.forMs)
        await end()
      })
      // What fails because something else strikes at the same time is no fault of anybody.
      .catch((error) => say(`${step.fault} was in vain: ${error.message}`))
      .finally(() => busy.delete(area))
    lasting.push(doing)
  }
  await sleep(Math.max(0, from + 1_000 * seconds - performance.now()))
  await Promise.all(lasting)
  return struck
}

async function begin(world: Cluster, step: Step) {
  const { fault, on } = step
  world.write('fault', { says: JSON.stringify({ ...step, pid: world.places[on ?? -1]?.pid }) })
  return faults[fault]!({ ...world, ending: (pid: string) => noting(world, fault, pid) }, step as Required<Step>)
}

/** Notes when something began that takes locks away at once, and when it was over. */
function noting({ write }: Cluster, fault: string, pid: string) {
  const from = process.hrtime.bigint()
  return () => write('fault', { ends: pid, says: fault, from: String(from), to: String(process.hrtime.bigint()) })
}

const held = `
select 'lock ' || ((classid::bigint << 32) | objid::bigint) as what from pg_locks
where locktype = 'advisory' and objsubid = 1 and database = (select oid from pg_database where datname = current_database())
union all
select 'lease ' || key from holdfast.lease where token <> '' and expires_at > clock_timestamp()
union all
select 'permit ' || key from holdfast.permit where weight > 0 and holdfast.is_present(session)
union all
select 'delivery ' || key from holdfast.delivery where state = 'in-flight' and holdfast.is_present(session)
union all
select 'claim of session ' || session from holdfast.claim`

const unfinished = `
select 'job ' || id || ' of kind ' || kind ||
  case
    when session is null then ', ready'
    else ', claimed by ' || session || case when holdfast.is_present(session) then '' else ', who is gone' end
  end || coalesce(', ' || (failures->-1->>'message'), '') as what
from holdfast.job_live
union all
select 'waiting job ' || id || ' of kind ' || kind || ', ' || stage || coalesce(', ' || (failures->-1->>'message'), '')
from holdfast.waiting
union all
select 'tick ' || at || ' ' || state from holdfast.tick where state in ('running', 'waiting')`

/** Everybody lets go, all jobs and ticks come to their end, all close; then nothing may be held. */
async function settle({ places, query, holdfast }: Cluster, patienceMs: number) {
  for (const place of places) {
    place.network.heal()
    place.network.delay(0)
    place.thaw()
    if (!place.child) await within(60_000, 'Opening', place.start())
  }
  await Promise.all(places.map((place) => place.rest(patienceMs)))
  for (const name of Object.keys(rules)) {
    // Those of a run without schedules are not there.
    await holdfast.schedules.override(name, { at: new Date('2999-01-01T00:00:00Z') }).catch(() => {})
  }
  await nothingOf('unfinished', query, unfinished, patienceMs)
  await Promise.all(places.map((place) => place.close()))
  await nothingOf('held', query, held, patienceMs)
}

async function nothingOf(what: string, query: Query, text: string, withinMs: number) {
  // A backlog may take long, as long as it becomes less.
  let least = Number.POSITIVE_INFINITY
  let deadline = performance.now() + withinMs
  for (;;) {
    const rows = await query(text).catch(() => [{ what: 'unknown' }])
    if (rows.length === 0) return
    if (rows.length < least) deadline = performance.now() + withinMs
    least = Math.min(least, rows.length)
    if (performance.now() > deadline) {
      const some = rows.slice(0, 5).map((row) => row.what)
      throw new Error(
        `${rows.length} still ${what} although nothing had ended for ${withinMs / 1_000} s: ${some.join(', ')}`,
      )
    }
    await sleep(100)
  }
}
