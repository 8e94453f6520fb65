import { setTimeout as pause } from 'node:timers/promises'
import type { DepartmentContext } from './department.js'

/**
 * Creates one report for each night. In the demo, a night begins every ten seconds. All instances have the schedule,
 * and one instance creates the report. If that instance is killed, a different instance starts the report again. Writes
 * through `tx` are committed in the transaction that ends the run.
 */
export function reports({ holdfast, name, record }: DepartmentContext): void {
  holdfast.schedules.add(
    'nightly-report',
    { every: '10s', missed: 'latest', timeout: '30s' },
    ({ tick, tx, fence, attempt, signal }) =>
      record('report', tick.toISOString().slice(11, 19), async () => {
        await pause(3_000, undefined, { signal })
        const values = [tick, attempt, fence, name]
        await tx.query('insert into report (night, attempt, fence, written_by) values ($1, $2, $3, $4)', values)
      }),
  )
}
