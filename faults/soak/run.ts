// npm run soak [-- --minutes 10 --plant handles|rows]
//
// A week of a fleet in minutes; then every series of samples must be flat. See the README beside it. Exit code 1 when one grows.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Holdfast } from 'holdfast'
import { startEmbedded } from 'holdfast/embedded'
import pg from 'pg'
import { Fleet } from './fleet.ts'
import { Samples } from './samples.ts'
import { shown } from './show.ts'
import { days, week, weekMs } from './week.ts'

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, plant: { type: 'string' } },
})
const runMs = Number(values.minutes) * 60_000
const dayMs = runMs / days
if (!(runMs >= 30_000)) throw new Error(`Expected --minutes to be at least 0.5, got ${values.minutes}`)
if (![undefined, 'handles', 'rows'].includes(values.plant)) throw new Error('Expected --plant to be handles or rows')

const samplesPerDay = 12
const midnightSql = readFileSync(new URL('./midnight.sql', import.meta.url), 'utf8')

/** For `--plant rows`: names and deliveries are never deleted, as if nobody swept them. */
const plantedRows = `
create function public.keep() returns trigger language plpgsql as 'begin return null; end';
create trigger kept before delete on holdfast.name for each row execute function public.keep();
create trigger kept before delete on holdfast.delivery for each row execute function public.keep()`

const server = await startEmbedded({
  // The rest of the week is pressed, and so is the time between two looks of autovacuum. A crash of the machine is not what is tried.
  settings: { autovacuum_naptime: '1s', max_connections: '200', fsync: 'off' },
})
const url = await server.createDatabase('soak')
const fleet = new Fleet({ url, dayMs, plant: values.plant })
let isOk = false
try {
  isOk = await run()
} finally {
  fleet.kill()
  await server.stop('immediate')
}
process.exitCode = isOk ? 0 : 1

async function run() {
  await (await Holdfast.open({ url })).close()
  const client = new pg.Client({ connectionString: url, application_name: 'soak' })
  // When it all ends early, the statement that fails says why.
  client.on('error', () => {})
  await client.connect()
  if (values.plant === 'rows') await client.query(plantedRows)
  await fleet.open()
  const samples = new Samples(client)
  const pass = dayWith(client, samples)
  const over = new AbortController()
  const troubles = Promise.all([
    steadily(weekMs / week.reconnects, cutOff, over.signal),
    steadily(weekMs / week.replacements, () => fleet.replace(), over.signal),
  ])
  troubles.catch(() => {})
  try {
    for (let day = 0; day < days; day++) await Promise.race([pass(day), fleet.broken, troubles])
  } finally {
    over.abort()
  }
  await troubles
  const all = await fleet.close()
  const [{ left }] = (
    await client.query(
      'select (select count(*) from holdfast.job_live) + (select count(*) from holdfast.waiting) as left',
    )
  ).rows
  await client.end()
  return shown({
    series: samples.judged(),
    sequences: samples.sequences(runMs / weekMs),
    all,
    left: Number(left),
    runMs,
  })
}

/** One day after the other: so much work each, and so the first two say how much that is. */
function dayWith(client: pg.Client, samples: Samples) {
  let quota = Number.POSITIVE_INFINITY
  let done = 0
  let lastedMs = 0
  return async (day: number) => {
    if (day > 0) await midnight(client, day, lastedMs)
    const beganAt = performance.now()
    const before = done
    const isTimed = day < 2
    const isOver = (at: number) =>
      isTimed ? at >= samplesPerDay : at >= 2 * samplesPerDay || (at >= samplesPerDay / 2 && done - before >= quota)
    for (let at = 0; !isOver(at); ) {
      at++
      await sleep(Math.max(0, beganAt + (at * dayMs) / samplesPerDay - performance.now()))
      const sample = await fleet.sample()
      done = Object.values(sample.done).reduce((sum, often) => sum + often, 0)
      await samples.take(day, sample)
    }
    lastedMs = performance.now() - beganAt
    if (isTimed) quota = done - before
  }
}

/** One thing after the other, at the pace of the week. What takes longer than its time is made up for. */
async function steadily(everyMs: number, work: () => Promise<void>, signal: AbortSignal) {
  let at = performance.now()
  while (!signal.aborted) {
    at += everyMs
    await sleep(Math.max(0, at - performance.now()), undefined, { signal }).catch(() => {})
    if (!signal.aborted) await work()
  }
}

/** Ends the session of some anchor. */
async function cutOff() {
  const client = new pg.Client({ connectionString: url, application_name: 'soak' })
  await client.connect()
  await client.query(
    'select pg_terminate_backend(backend_pid) from (select backend_pid from holdfast.instance order by random() limit 1) as one',
  )
  await client.end()
}

async function midnight(client: pg.Client, night: number, dayLastedMs: number) {
  await client.query("select set_config('soak.day', $1, false), set_config('soak.night', $2, false)", [
    `${dayLastedMs} ms`,
    String(night),
  ])
  await client.query(midnightSql)
}
