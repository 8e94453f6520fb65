// Starts the libraries that jobs are imported from, as their users do.
import { Logger, makeWorkerUtils, type Runner, run, type TaskList, type WorkerUtils } from 'graphile-worker'
import { PgBoss } from 'pg-boss'
import { onTestFinished } from 'vitest'
import { sql } from '../setup/facts.js'

const quiet = new Logger(() => () => {})

/** Starts pg-boss without its schedules and maintenance, which the tests do not need. Stops it when the test has finished. */
export async function bossOf(url: string, schema = 'pgboss'): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString: url, schema, schedule: false, supervise: false })
  boss.on('error', () => {})
  await boss.start()
  onTestFinished(() => boss.stop({ graceful: false }))
  return boss
}

/** Migrates the schema of graphile-worker and returns an object that can add jobs. */
export async function graphileOf(url: string): Promise<WorkerUtils> {
  const utils = await makeWorkerUtils({ connectionString: url, logger: quiet })
  onTestFinished(() => utils.release())
  await utils.migrate()
  return utils
}

/** Starts a worker of graphile-worker and stops it when the test has finished. */
export async function graphileWorker(url: string, taskList: TaskList, concurrency = 1): Promise<Runner> {
  const runner = await run({
    connectionString: url,
    logger: quiet,
    taskList,
    concurrency,
    pollInterval: 50,
    noHandleSignals: true,
  })
  onTestFinished(() => runner.stop().catch(() => {}))
  return runner
}

/** Returns the imported jobs in the order in which they were imported. */
export function importedJobs(url: string): Promise<Record<string, unknown>[]> {
  return sql(
    url,
    `select kind, priority, payload::text::jsonb as input, failed, log, null as delayed, links->'lane'->>'name' as lane, links->'unique' as "unique", id
     from holdfast.job_live
     union all
     select kind, priority, payload::text::jsonb, failed, log, run_at - clock_timestamp() > '1s', links->'lane'->>'name', links->'unique', id
     from holdfast.waiting
     order by id`,
  )
}
