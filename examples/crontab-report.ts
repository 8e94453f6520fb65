// A report from the crontab of three hosts, in any language: `holdfast lock run --tick RULE NAME -- COMMAND`. The clock of the
// first host is quick: it comes before the tick, and waits for it. The others are slow: they come when the report is made
// already, and leave at once. The clock that counts is that of the database.
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
  // A night of our own choice; in earnest '0 3 * * *'.
  const rule = `${night.getUTCSeconds()} ${night.getUTCMinutes()} ${night.getUTCHours()} * * *`

  /** What cron does on a host; its crontab has this line. */
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
    `the quick host waited for the night: ${after[0].waited}, and made its report: ${quick === night.toISOString()}`,
  )
  const late = await Promise.all([trigger(), trigger()])
  console.log(`late hosts that made another: ${late.filter((report) => report !== '').length}`)
  await client.end()
})

// prints:
// the quick host waited for the night: true, and made its report: true
// late hosts that made another: 0
