// A job queue with one advisory lock per job, in plain SQL and without Holdfast. Four processes work on 200 jobs. Two of
// them are killed with SIGKILL: the first before its job's commit, the second after the commit but before the unlock.
// PostgreSQL releases both locks. Another process runs the first job again, and no process repeats the second job. In the
// end, every job has exactly one effect.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
// Only finds a database for the example.
import { withDatabase } from './database.ts'

const tables = `
  create table queued_job (id integer primary key, amount integer not null);
  -- Without a unique key, a job's second effect would be visible.
  create table effect (job integer not null, amount integer not null);
  create table start (job integer not null)`

/** First key of the locks. It keeps them apart from other advisory locks in the same database. */
const lockClass = 8_642

const [url] = process.argv.slice(2)
if (url) await work(url)
else await withDatabase(main)

/** One worker process: runs jobs until the table is empty. */
async function work(url: string) {
  process.once('disconnect', () => process.exit())
  // One connection does everything. If it breaks, PostgreSQL rolls back its transaction and then releases its locks.
  const client = new pg.Client(url)
  await client.connect()
  for (;;) {
    const { rows } = await client.query<{ id: number }>('select id from queued_job order by id limit 20')
    if (rows.length === 0) break
    let isIdle = true
    for (const { id } of rows) if (await claimAndRun(client, id)) isIdle = false
    // Other processes run all of these jobs.
    if (isIdle) await pause(10)
  }
  await client.end()
  process.disconnect()
}

/** Returns false if another process runs the job or has finished it. */
async function claimAndRun(client: pg.Client, id: number): Promise<boolean> {
  const { rows } = await client.query('select pg_try_advisory_lock($1, $2) as is_ours', [lockClass, id])
  if (!rows[0].is_ours) return false
  // The second look. Another process may have finished the job after this process read the list and before it got the
  // lock. The second look must be a separate statement, because the statement that takes the lock reads older rows.
  const look = await client.query<{ amount: number }>('select amount from queued_job where id = $1', [id])
  const [job] = look.rows
  if (job) await run(client, id, job.amount)
  // Unlocks only after the commit. After an earlier unlock, another process could lock the job, still find its row, and
  // run it again. After an error, the process ends, and PostgreSQL releases the lock.
  await client.query('select pg_advisory_unlock($1, $2)', [lockClass, id])
  return job !== undefined
}

/** Writes the effect and deletes the job in one transaction: both happen, or neither. */
async function run(client: pg.Client, id: number, amount: number) {
  await client.query('insert into start values ($1)', [id])
  const { rows } = await client.query('select count(*) = 1 as is_first from start where job = $1', [id])
  await client.query('begin')
  await client.query('insert into effect values ($1, $2)', [id, amount * 2])
  if (id === 42 && rows[0].is_first) await waitForKill(id)
  await client.query('delete from queued_job where id = $1', [id])
  await client.query('commit')
  if (id === 84 && rows[0].is_first) await waitForKill(id)
}

async function waitForKill(id: number) {
  process.send?.(id)
  await new Promise(() => {})
}

async function main(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  const count = async (what: string) =>
    (await client.query(`select count(*)::integer as count from ${what}`)).rows[0].count
  const locks = `pg_locks where locktype = 'advisory' and classid = ${lockClass}
    and database = (select oid from pg_database where datname = current_database())`
  await client.query(tables)
  await client.query('insert into queued_job select n, n * 10 from generate_series(1, 200) as n')
  const workers = Array.from({ length: 4 }, () => fork(fileURLToPath(import.meta.url), [url]))
  const exits = workers.map((worker) => once(worker, 'exit'))
  const waitingAt = (id: number) =>
    new Promise<ChildProcess>((resolve) => {
      for (const worker of workers) worker.on('message', (message) => message === id && resolve(worker))
    })

  const [before, after] = await Promise.all([waitingAt(42), waitingAt(84)])
  for (const id of [42, 84]) console.log(`job ${id} is locked by ${await count(`${locks} and objid = ${id}`)} session`)
  for (const worker of [before, after]) worker.kill('SIGKILL')
  console.log('the worker of job 42 was killed before the commit, the worker of job 84 after the commit')

  await Promise.all(exits)
  for (const id of [42, 84]) console.log(`starts of job ${id}: ${await count(`start where job = ${id}`)}`)
  const { rows } = await client.query('select count(*), count(distinct job) as jobs, sum(amount) from effect')
  console.log(`effects: ${rows[0].count}, of ${rows[0].jobs} jobs, sum ${rows[0].sum}`)
  console.log(`left: ${await count('queued_job')} jobs, ${await count(locks)} locks`)
  await client.end()
}

// prints:
// job 42 is locked by 1 session
// job 84 is locked by 1 session
// the worker of job 42 was killed before the commit, the worker of job 84 after the commit
// starts of job 42: 2
// starts of job 84: 1
// effects: 200, of 200 jobs, sum 402000
// left: 0 jobs, 0 locks
