// Measures a minimal job queue in plain SQL, without Holdfast. An update claims jobs. A delete with an insert ends jobs and writes the history.
// Two loops enqueue, one loop claims and one loop ends jobs, each in batches of 1,000.
import pg from 'pg'
import { median } from '../measure.ts'
import { withFixture } from './fixture.ts'
import { payloads } from './throughput.ts'

const schema = `
create schema if not exists plain;
create sequence plain.number;
create table plain.job (
  id bigint primary key, queue bigint not null, priority smallint not null, payload json not null, session integer, fence bigint
) with (fillfactor = 40);
create index on plain.job (queue, priority, id);
create table plain.history (
  id bigint not null, queue bigint not null, priority smallint not null, payload json not null, ended_at timestamptz not null
);
create index on plain.history (id);`

const enqueue = `
insert into plain.job
select nextval('plain.number'), 1, 0, payload
from json_array_elements($1::text::json) as payload`

const claim = `
update plain.job
set session = 1, fence = $1
where ctid = any(array(
  select ctid
  from plain.job
  where queue = 1 and priority = 0 and id > $2 and session is null
  order by id
  limit $3
  for update skip locked
))
returning id, payload::text`

const end = `
with ended as (
  delete from plain.job where id = any($1::text::bigint[]) and fence = $2 returning *
)
insert into plain.history select id, queue, priority, payload, clock_timestamp() from ended`

const batchSize = 1_000
const backlog = 20_000

const pause = () => new Promise((resolve) => setTimeout(resolve, 1))

/** Runs one worker of Holdfast and the plain SQL in alternating slices on one server. Each slice ends when all of its jobs have ended. */
export function comparedWithPlain({ rounds, seconds }: { rounds: number; seconds: number }) {
  return withFixture('holdfast', async ({ url, queue, workers }) => {
    const crew = await workers()
    crew.begin()
    const plain = await plainLoops(url)
    const some = payloads(batchSize)
    const ours: number[] = []
    const theirs: number[] = []
    for (let round = -1; round < rounds; round++) {
      const from = { at: performance.now(), done: crew.done() }
      let enqueued = from.done
      const produce = async () => {
        while (performance.now() - from.at < seconds * 1_000) {
          if (enqueued - crew.done() > backlog) await pause()
          else {
            enqueued += batchSize
            await queue.enqueueMany(some)
          }
        }
      }
      await Promise.all([produce(), produce()])
      while (crew.done() < enqueued) await pause()
      const perSecond = ((crew.done() - from.done) / (performance.now() - from.at)) * 1_000
      const plainPerSecond = await plain.slice(seconds)
      // The first round opens connections and fills caches. It is not measured.
      if (round < 0) continue
      ours.push(perSecond)
      theirs.push(plainPerSecond)
    }
    await plain.close()
    return {
      perSecond: Math.round(median(ours)),
      plainPerSecond: Math.round(median(theirs)),
      ratio: Number(median(ours.map((rate, round) => rate / theirs[round]!)).toPrecision(3)),
    }
  })
}

/**
 * Creates the tables and connections. `slice` enqueues for some seconds, ends all jobs, and returns the number of
 * finished jobs per second.
 */
async function plainLoops(url: string) {
  const clients = Array.from({ length: 4 }, () => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  const [producer, second, claimer, ender] = clients as [pg.Client, pg.Client, pg.Client, pg.Client]
  await producer.query(schema)
  await claimer.query('set synchronous_commit = off')
  const inputs = JSON.stringify(Array.from({ length: batchSize }, (_, at) => ({ at })))
  let [enqueued, done, cursor, fence] = [0, 0, 0, 0] as [number, number, number, number]
  return {
    async slice(seconds: number) {
      const until = performance.now() + seconds * 1_000
      const claims: { fence: number; ids: number[] }[] = []
      let [producing, isClaiming] = [2, true] as [number, boolean]
      const from = { at: performance.now(), done }
      const produce = async (client: pg.Client) => {
        while (performance.now() < until) {
          if (enqueued - done > backlog) await pause()
          else {
            enqueued += batchSize
            await client.query(enqueue, [inputs])
          }
        }
        producing--
      }
      await Promise.all([
        produce(producer),
        produce(second),
        (async () => {
          for (;;) {
            const wasProducing = producing > 0
            const { rows } = await claimer.query(claim, [++fence, cursor, batchSize])
            if (rows.length > 0) {
              for (const { id } of rows) cursor = Math.max(cursor, Number(id))
              claims.push({ fence, ids: rows.map(({ id }) => id).sort((a, b) => a - b) })
            } else if (!wasProducing && cursor === 0) break
            // A job whose transaction committed after the previous claim can have an id below the cursor.
            else cursor = 0
            while (claims.length > 4) await pause()
          }
          isClaiming = false
        })(),
        (async () => {
          while (isClaiming || claims.length > 0) {
            const next = claims.shift()
            if (next === undefined) await pause()
            else {
              await ender.query(end, [`{${next.ids}}`, next.fence])
              done += next.ids.length
            }
          }
        })(),
      ])
      return ((done - from.done) / (performance.now() - from.at)) * 1_000
    },
    close: () => Promise.all(clients.map((client) => client.end())),
  }
}
