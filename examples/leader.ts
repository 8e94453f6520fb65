// Three processes campaign in one election. The leader counts. When the leader is killed, another process becomes the leader and continues to count.
// Each number is stored with the term in which it was written.
import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const url = process.argv[2]
if (url) await stand(url)
else await withDatabase(manage)

async function stand(url: string) {
  const holdfast = await Holdfast.open({ url })
  const client = new pg.Client(url)
  await client.connect()
  holdfast.elections.campaign('counter', async ({ signal, term, guard }) => {
    while (!signal.aborted) {
      await client.query('begin')
      await guard(client) // rejects an earlier leader's write
      await client.query('insert into counted (number, term) select count(*) + 1, $1 from counted', [term])
      await client.query('commit')
    }
  })
  process.send?.(holdfast.id)
}

async function manage(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table counted (number bigint primary key, term bigint not null)')
  const observer = await Holdfast.open({ url })

  const candidates = new Map<string, ChildProcess>()
  for (let i = 0; i < 3; i++) {
    const child = fork(fileURLToPath(import.meta.url), [url])
    child.once('message', (id: string) => candidates.set(id, child))
  }
  // The watch yields each new leader, and null while there is no leader.
  let killedAt = 0
  let kills = 0
  let lastTerm = 0
  for await (const leader of observer.elections.watch('counter')) {
    if (leader === null || !candidates.has(leader.instance) || leader.term === lastTerm) continue
    if (kills > 0) console.log(`the next leader started within two seconds: ${performance.now() - killedAt < 2_000}`)
    console.log(`term number ${kills + 1} is larger than the previous term: ${leader.term > lastTerm}`)
    lastTerm = leader.term
    await hasCounted(client, leader.term)
    if (++kills === 3) break
    candidates.get(leader.instance)?.kill('SIGKILL')
    killedAt = performance.now()
  }
  for (const child of candidates.values()) child.kill('SIGKILL')

  const { rows } = await client.query(`
    select
      count(distinct term)::int as terms,
      max(number) = count(*) as without_gaps,
      bool_and(term >= previous) as in_order
    from (select number, term, lag(term, 1, 0::bigint) over (order by number) as previous from counted) c`)
  console.log(rows[0])
  await observer.close()
  await client.end()
}

async function hasCounted(client: pg.Client, term: number) {
  for (;;) {
    const { rows } = await client.query('select from counted where term = $1 limit 1', [term])
    if (rows.length > 0) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

// prints:
// term number 1 is larger than the previous term: true
// the next leader started within two seconds: true
// term number 2 is larger than the previous term: true
// the next leader started within two seconds: true
// term number 3 is larger than the previous term: true
// { terms: 3, without_gaps: true, in_order: true }
