// Upgrades PostgreSQL while the fleet is working. The steps are those of the runbook "Upgrade PostgreSQL without stopping the fleet" in
// docs/operating/upgrades.md, as they are printed there.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster } from './cluster.ts'
import { readRunbook, runCommands } from './runbook.ts'

/** Seconds from the moment when the old cluster stops accepting the fleet, and the versions. */
export interface Pause {
  from: string
  to: string
  /** Until the fleet's address leads to the new cluster. */
  redirected: number
  enqueued: number
  locked: number
  completed: number
}

/** Upgrades the cluster's server after `afterMs`, from the version whose programs are in `programs`. Returns the pause. */
export async function upgrade(cluster: Cluster, programs: string, afterMs: number, log: (line: string) => void) {
  const green = await cluster.startServer()
  const env = {
    BLUE: cluster.url,
    GREEN: Object.assign(new URL(green.url), { pathname: '/app' }).href,
  }
  const from = await versionOf(cluster)
  await sleep(afterMs)
  let stoppedAt = 0
  let pause: Pause | undefined
  let end = () => {}
  for (const { text, commands } of readRunbook(
    'operating/upgrades.md',
    'Upgrade PostgreSQL without stopping the fleet',
  )) {
    log(text.split('\n')[0]!)
    if (text.startsWith('**Stop')) {
      stoppedAt = performance.now()
      // PostgreSQL releases a session's locks before it notifies the holder.
      const since = process.hrtime.bigint()
      end = () => {
        cluster.write('fault', {
          ends: 'all',
          text: 'upgrade',
          from: String(since),
          to: String(process.hrtime.bigint()),
        })
      }
    }
    for (const lines of commands) {
      const output = await runCommands(lines, { programs, env })
      // The doctor reports the wrong clocks of the fleet, but as a risk.
      if (/^wrong/m.test(output)) throw new Error(`After the upgrade, the doctor reports:\n${output}`)
    }
    if (text.startsWith('**Wait until green has all')) end()
    if (text.startsWith('**Redirect')) {
      await cluster.moveTo(green)
      pause = await measurePause(cluster, from, stoppedAt)
    }
  }
  if (!pause) throw new Error('The runbook has no step "Redirect"')
  return pause
}

async function versionOf({ query }: Pick<Cluster, 'query'>): Promise<string> {
  return (await query('show server_version'))[0]!.server_version.split(' ')[0]
}

async function measurePause({ holdfast, query }: Cluster, from: string, stoppedAt: number): Promise<Pause> {
  const seconds = () => Math.round((performance.now() - stoppedAt) / 100) / 10
  const succeeds = async (work: () => Promise<unknown>) => {
    while (
      !(await work().then(
        (result) => result !== false,
        () => false,
      ))
    )
      await sleep(20)
    return seconds()
  }
  const redirected = seconds()
  const isAny = (rows: string) => async () => (await query(`${rows} limit 1`)).length > 0
  const here = '(select era from holdfast.server_generation)'
  const [enqueued, locked, completed] = await Promise.all([
    succeeds(isAny(`select from holdfast.job where era = ${here} and ${here} > 0`)),
    succeeds(() => holdfast.locks.with('after the upgrade', () => {})),
    succeeds(
      isAny(
        `select from holdfast.job_end where ended_at > (select began_at from holdfast.server_generation where era > 0)`,
      ),
    ),
  ])
  return { from, to: await versionOf({ query }), redirected, enqueued, locked, completed }
}
