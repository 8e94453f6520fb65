// One schedule for each customer, stored in the database. Three processes run workers, and none of them has the schedules in its code. The
// process that is settling the ticks is killed. Each tick still enqueues exactly one job.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { defineJob, Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const sendReport = defineJob('send-report', {
  run: async ({ customer }: { customer: string }, { tx, meta }) => {
    await tx.query('insert into report (customer, tick) values ($1, $2)', [customer, meta.tick])
  },
})

const url = process.argv[2]
if (url) await work(url)
else await withDatabase(manage)

/** Runs one of the fleet's processes. */
async function work(url: string) {
  const holdfast = await Holdfast.open({ url })
  await holdfast.jobs.work([sendReport]).ready()
  process.on('disconnect', () => holdfast.close())
  process.on('message', () => process.send?.(holdfast.id))
  process.send?.('ready')
}

async function manage(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table report (customer text, tick timestamptz)')
  const holdfast = await Holdfast.open({ url })
  const { schedules } = holdfast
  const processes = await Promise.all([1, 2, 3].map(() => startProcess(url)))

  const ask = (customer: string, every: '1s' | '1h') =>
    schedules.upsert(`${customer}:report`, { every, job: sendReport, input: { customer } })
  console.log(`Ada: ${await ask('Ada', '1s')}, Grace: ${await ask('Grace', '1s')}, Alan: ${await ask('Alan', '1h')}`)
  console.log(`Ada again: ${await ask('Ada', '1s')}`)
  const names = (await schedules.list({ search: ':report' })).map(({ name }) => name)
  console.log(`The schedules are ${names.join(', ')}.`)

  await untilReports(3)
  const { rows } = await client.query<{ instance: string }>('select instance from holdfast.schedule_ticker')
  const settling = processes.find(({ id }) => id === rows[0]!.instance)!
  settling.child.kill('SIGKILL')
  console.log('The process that settles the ticks was killed.')
  await untilReports(6)
  console.log(`Ada's schedule is removed: ${await schedules.remove('Ada:report')}`)
  await schedules.pause('Grace:report')

  const ticks = await client.query(`
    select count(*) = count(distinct job) as are_exact
    from holdfast.tick
    where job is not null`)
  const reports = await client.query('select 1 from report group by customer, tick having count(*) > 1')
  console.log(`Each tick has its own job: ${ticks.rows[0].are_exact}. Reports sent twice: ${reports.rowCount}.`)

  for (const { child } of processes) if (child.connected) child.disconnect()
  await holdfast.close()
  await client.end()

  /** Waits until both customers have at least this number of reports. */
  async function untilReports(count: number) {
    for (;;) {
      const { rows } = await client.query('select customer from report group by customer having count(*) >= $1', [
        count,
      ])
      if (rows.length === 2) return
      await sleep(100)
    }
  }
}

async function startProcess(url: string) {
  const child = fork(fileURLToPath(import.meta.url), [url])
  await once(child, 'message')
  child.send('id')
  const [id] = await once(child, 'message')
  return { child, id: id as string }
}

// prints:
// Ada: created, Grace: created, Alan: created
// Ada again: unchanged
// The schedules are Ada:report, Alan:report, Grace:report.
// The process that settles the ticks was killed.
// Ada's schedule is removed: true
// Each tick has its own job: true. Reports sent twice: 0.
