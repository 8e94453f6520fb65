// Three hosts have the same crontab line, `holdfast lock run --tick RULE NAME -- COMMAND`, which can run a report in
// any language. The first host's clock is fast: its command starts before the tick and waits for the tick. The other
// hosts' clocks are slow: their commands start after the report has run, and end immediately. Only the database clock
// determines the tick.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { withDatabase } from './database.ts'

const holdfast = fileURLToPath(new URL('./cli/bin.js', import.meta.resolve('holdfast')))

await withDatabase(async (url) => {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query("select date_trunc('second', now()) + interval '3 seconds' as night")
  const night: Date = rows[0].night
  // A tick in three seconds, so that the example is short. In production, the rule is for example '0 3 * * *'.
  const rule = `${night.getUTCSeconds()} ${night.getUTCMinutes()} ${night.getUTCHours()} * * *`

  /** Runs the crontab line, as cron does on a host. */
  async function trigger() {
    const command = ['sh', '-c', 'echo "$HOLDFAST_TICK"']
    const line = ['lock', 'run', '--tick', rule, '--quiet', 'nightly-report', '--', ...command]
    const env = { ...process.env, DATABASE_URL: url }
    const { stdout } = await promisify(execFile)(process.execPath, [holdfast, ...line], { env })
    return stdout.trim()
  }

  const quick = await trigger()
  const { rows: after } = await client.query('select now() >= $1 as waited', [night])
  console.log(
    `the host with the fast clock waited for the tick: ${after[0].waited}, and ran the report: ${quick === night.toISOString()}`,
  )
  const late = await Promise.all([trigger(), trigger()])
  console.log(`hosts with slow clocks that ran the report again: ${late.filter((report) => report !== '').length}`)
  await client.end()
})

// prints:
// the host with the fast clock waited for the tick: true, and ran the report: true
// hosts with slow clocks that ran the report again: 0
