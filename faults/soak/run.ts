// npm run soak [-- --minutes 10 --plant handles|rows]
//
// Runs one week of a fleet's work in minutes. Exits with status 1 if a series of samples grows. See README.md in this
// directory.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Holdfast } from 'holdfast'
import { startEmbedded } from 'holdfast/embedded'
import pg from 'pg'
import { Fleet } from './fleet.ts'
import { Samples } from './samples.ts'
import { printReport } from './show.ts'
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

/** For `--plant rows`: prevents the deletion of names and deliveries, as if the cleanup were missing. */
const plantedRows = `
create function public.keep() returns trigger language plpgsql as 'begin return null; end';
create trigger kept before delete on holdfast.name for each row execute function public.keep();
create trigger kept before delete on holdfast.delivery for each row execute function public.keep()`

const server = await startEmbedded({
  // Autovacuum runs more often because the week is compressed. The soak test does not test machine crashes.
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
  // If the connection breaks, the next statement throws.
  client.on('error', () => {})
  await client.connect()
  if (values.plant === 'rows') await client.query(plantedRows)
  await fleet.open()
  const samples = new Samples(client)
  const pass = dayWith(client, samples)
  const stop = new AbortController()
  const troubles = Promise.all([
    steadily(weekMs / week.reconnects, endOneSession, stop.signal),
    steadily(weekMs / week.replacements, () => fleet.replace(), stop.signal),
  ])
  troubles.catch(() => {})
  try {
    for (let day = 0; day < days; day++) await Promise.race([pass(day), fleet.broken, troubles])
  } finally {
    stop.abort()
  }
  await troubles
  const all = await fleet.close()
  const [{ left }] = (
    await client.query(
      'select (select count(*) from holdfast.job_live) + (select count(*) from holdfast.waiting) as left',
    )
  ).rows
  await client.end()
  return printReport({
    series: samples.checkSeries(),
    sequences: samples.checkSequences(runMs / weekMs),
    all,
    left: Number(left),
    runMs,
  })
}

/** Returns a function that runs one day. Later days do as much work as the second day. */
function dayWith(client: pg.Client, samples: Samples) {
  let quota = Number.POSITIVE_INFINITY
  let done = 0
  let lastedMs = 0
  return async (day: number) => {
    if (day > 0) await midnight(client, day, lastedMs)
    const startedAt = performance.now()
    const before = done
    const isTimed = day < 2
    const isOver = (at: number) =>
      isTimed ? at >= samplesPerDay : at >= 2 * samplesPerDay || (at >= samplesPerDay / 2 && done - before >= quota)
    for (let at = 0; !isOver(at); ) {
      at++
      await sleep(Math.max(0, startedAt + (at * dayMs) / samplesPerDay - performance.now()))
      const sample = await fleet.sample()
      done = Object.values(sample.done).reduce((sum, count) => sum + count, 0)
      await samples.take(day, sample)
    }
    lastedMs = performance.now() - startedAt
    if (isTimed) quota = done - before
  }
}

/** Repeats `work` at the week's pace. If one call takes too long, the next calls come sooner. */
async function steadily(everyMs: number, work: () => Promise<void>, signal: AbortSignal) {
  let at = performance.now()
  while (!signal.aborted) {
    at += everyMs
    await sleep(Math.max(0, at - performance.now()), undefined, { signal }).catch(() => {})
    if (!signal.aborted) await work()
  }
}

/** Ends a randomly chosen anchor's session. */
async function endOneSession() {
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
