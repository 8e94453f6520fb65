// Five processes have the same schedule for a nightly report. At the tick, one process starts the report and is killed
// before it finishes. Another process runs the report again. In the end, there is exactly one report, because a run's
// writes through `tx` commit together with the run's completion.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const url = process.argv[2]
if (url) await takePart(url)
else await withDatabase(manage)

async function takePart(url: string) {
  const holdfast = await Holdfast.open({ url })
  process.send?.('ready')
  const [night] = await once(process, 'message')
  // A tick in three seconds. In production, the rule is for example { cron: '0 3 * * *', timezone: 'Europe/London' }.
  holdfast.schedules.add('nightly-report', { at: new Date(night) }, async ({ tick, tx, attempt, signal }) => {
    await tx.query('insert into report (night, attempt) values ($1, $2)', [tick, attempt])
    process.send?.('at work')
    if (attempt === 1) await new Promise((resolve) => signal.addEventListener('abort', resolve))
  })
}

async function manage(url: string) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('create table report (night timestamptz not null, attempt integer not null)')
  const observer = await Holdfast.open({ url })
  const children = Array.from({ length: 5 }, () => fork(fileURLToPath(import.meta.url), [url]))
  await Promise.all(children.map((child) => once(child, 'message')))
  const { rows } = await client.query("select date_trunc('second', now()) + interval '3 seconds' as night")
  const night: string = rows[0].night.toISOString()
  let atWork = 0
  for (const child of children) {
    child.send(night)
    child.on('message', () => {
      atWork++
      if (atWork === 1) child.kill('SIGKILL')
    })
  }
  const run = await theEnd(observer)
  for (const child of children) child.kill('SIGKILL')

  console.log(`the report was started ${atWork} times, and it is ${run.state} in attempt ${run.attempt}`)
  console.log(`the tick is the planned time: ${run.tick.toISOString() === night}`)
  const reports = await client.query('select night, attempt from report')
  console.log(`reports: ${reports.rows.length}, from attempt ${reports.rows[0].attempt}`)
  await observer.close()
  await client.end()
}

async function theEnd(observer: Holdfast) {
  for (;;) {
    const [run] = await observer.schedules.runs('nightly-report')
    if (run?.kind === 'run' && run.endedAt && run.state === 'done') return run
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

// prints:
// the report was started 2 times, and it is done in attempt 2
// the tick is the planned time: true
// reports: 1, from attempt 2
