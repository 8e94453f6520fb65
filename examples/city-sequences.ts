// Numbers each city's buildings, in batches, the oldest buildings first. Several processes run this task at the same
// time, like instances that have the same schedule. Only one process at a time works on a city. The numbers therefore
// have no duplicates and no gaps, although the code that assigns them does not check for other processes. The next
// trigger numbers only new buildings.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const [url, trigger] = process.argv.slice(2)
if (url) await assignSequences(url, trigger)
else await withDatabase(manage)

async function assignSequences(url: string, trigger = '') {
  const holdfast = await Holdfast.open({ url })
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  const cities = await pool.query<{ city: string }>('select distinct city from buildings where occurrence is null')
  const names = cities.rows.map(({ city }) => city)
  // Skips the cities that another process has finished in this round, and the cities that another process is working on.
  const options = { round: trigger, waitForOthers: false }
  await holdfast.shares.each('occurrence', names, options, (city, { signal }) => numberBatches(pool, city, signal))
  await pool.end()
  await holdfast.close()
}

// Reads the last number, then writes the next numbers. Two processes at the same time would write the same numbers.
async function numberBatches(pool: pg.Pool, city: string, signal: AbortSignal) {
  for (;;) {
    signal.throwIfAborted()
    const last = await pool.query('select coalesce(max(occurrence), 0) as number from buildings where city = $1', [
      city,
    ])
    const batch = await pool.query(
      'select id from buildings where city = $1 and occurrence is null order by registered, id limit 7',
      [city],
    )
    if (batch.rows.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 5))
    await pool.query(
      `update buildings set occurrence = $1 + place, written_by = $3
       from unnest($2::int[]) with ordinality as batch (id, place)
       where buildings.id = batch.id`,
      [last.rows[0].number, batch.rows.map(({ id }) => id), process.pid],
    )
  }
}

async function manage(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(`
    create table buildings (
      id int generated always as identity,
      city text not null,
      building text not null,
      registered timestamptz not null,
      occurrence bigint,
      written_by int
    )`)
  for (const trigger of ['12:00', '13:00']) {
    // 200 buildings have the same registration time, so this time alone does not define their order.
    await client.query(`
      insert into buildings (city, building, registered)
      select 'city ' || i % 25, 'building ' || i, timestamptz '2021-02-01' + i / 200 * interval '1 minute'
      from generate_series(1, 1000) i`)
    const workers = Array.from({ length: 4 }, () => fork(fileURLToPath(import.meta.url), [url, trigger]))
    await Promise.all(workers.map((worker) => once(worker, 'exit')))
    const { rows } = await client.query(`
      select
        count(distinct city)::int as cities,
        sum(buildings)::int as numbered,
        bool_and(last = buildings and different = buildings) as no_gaps_no_duplicates
      from (
        select city, count(*) as buildings, max(occurrence) as last, count(distinct occurrence) as different
        from buildings group by city
      ) c`)
    console.log(trigger, rows[0])
  }
  const { rows } = await client.query('select count(distinct written_by) > 1 as shared from buildings')
  console.log(`several processes took part: ${rows[0].shared}`)
  await client.end()
}

// prints:
// 12:00 { cities: 25, numbered: 1000, no_gaps_no_duplicates: true }
// 13:00 { cities: 25, numbered: 2000, no_gaps_no_duplicates: true }
// several processes took part: true
