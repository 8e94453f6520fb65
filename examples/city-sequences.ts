// Buildings get a sequence number within their city, in batches, oldest first. Several processes run the task at once, as
// instances with the same schedule do; one city is in the hands of one process at a time. So there are no duplicates and
// no gaps, although the assignment itself knows nothing of the others. At the next trigger only what is new is numbered.
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
  // Whoever comes late to this trigger finds the city done; what others are at work on waits for the next trigger.
  await holdfast.shares.each('occurrence', names, (city, { signal }) => numberBatches(pool, city, signal), {
    round: trigger,
    waitForOthers: false,
  })
  await pool.end()
  await holdfast.close()
}

// Reads the last number, then writes the next ones: two at once would write the same.
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
    // Many were registered in the same instant, so that their time alone puts them in no order.
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
