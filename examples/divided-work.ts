// Workers divide resources among themselves without a coordinator. Each worker takes resources that no other worker has. To add capacity, start more
// workers. One worker is killed in the middle of a resource, and another worker takes over this resource.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const databases = Array.from({ length: 40 }, (_, i) => `db${i + 1}`)
const [url, round, fate] = process.argv.slice(2)
if (url) await work(url, round, fate)
else await withDatabase(manage)

async function work(url: string, round = '', fate = '') {
  const holdfast = await Holdfast.open({ url })
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  // All workers begin at the same time, even if some need longer to start.
  process.send?.('ready')
  await once(process, 'message')
  await holdfast.shares.each('backup', databases, { round }, async (database) => {
    await pool.query('insert into started values ($1, $2)', [round, database])
    if (fate === 'dies') await hangInTheMiddle()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await pool.query('insert into backed_up values ($1, $2, $3)', [round, database, process.pid])
  })
  await pool.end()
  await holdfast.close()
}

function hangInTheMiddle() {
  process.send?.('in the middle')
  return new Promise(() => {})
}

async function manage(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table started (round text, database text)')
  await client.query('create table backed_up (round text, database text, worker int)')

  for (const count of [1, 4]) {
    const workers = await start(url, `workers: ${count}`, count)
    await goAndEnd(workers)
    console.log(`workers: ${count}`, await result(client, `workers: ${count}`))
  }

  const victim = await startOne(url, 'one worker killed', 'dies')
  const others = await start(url, 'one worker killed', 2)
  victim.send('go')
  await once(victim, 'message')
  const ended = goAndEnd(others)
  victim.kill('SIGKILL')
  await ended
  const { rows } = await client.query(
    "select count(*)::int as twice from started where round = 'one worker killed' group by database having count(*) > 1",
  )
  console.log('one worker killed:', await result(client, 'one worker killed'))
  console.log(`started by one worker and finished by another: ${rows.length}`)
  await client.end()
}

async function startOne(url: string, round: string, fate = 'lives') {
  const worker = fork(fileURLToPath(import.meta.url), [url, round, fate])
  await once(worker, 'message')
  return worker
}

async function start(url: string, round: string, count: number) {
  return Promise.all(Array.from({ length: count }, () => startOne(url, round)))
}

function goAndEnd(workers: ChildProcess[]) {
  for (const worker of workers) worker.send('go')
  return Promise.all(workers.map((worker) => once(worker, 'exit')))
}

async function result(client: pg.Client, round: string) {
  const { rows } = await client.query(
    `select
       count(*)::int as backed_up,
       count(distinct database)::int as databases,
       count(distinct worker) > 1 as divided
     from backed_up
     where round = $1`,
    [round],
  )
  return rows[0]
}

// prints:
// workers: 1 { backed_up: 40, databases: 40, divided: false }
// workers: 4 { backed_up: 40, databases: 40, divided: true }
// one worker killed: { backed_up: 40, databases: 40, divided: true }
// started by one worker and finished by another: 1
