import { setTimeout as pause } from 'node:timers/promises'
import type { DepartmentContext } from './department.js'

/**
 * Makes one report for each night; here, a night comes every ten seconds. All instances have the schedule, and one of them makes
 * the report. If this instance is killed, another one starts the report again. Writes with `tx` commit with the end of the run.
 */
export function reports({ holdfast, name, record }: DepartmentContext): void {
  holdfast.schedules.add(
    'nightly-report',
    { every: '10s', missed: 'latest', timeout: '30s' },
    ({ tick, tx, fence, attempt, signal }) =>
      record('report', tick.toISOString().slice(11, 19), async () => {
        await pause(3_000, undefined, { signal })
        await tx.query('insert into report (night, attempt, fence, written_by) values ($1, $2, $3, $4)', [
          tick,
          attempt,
          fence,
          name,
        ])
      }),
  )
}
