// A PgBouncer of the test's own before the server of the run, where the program is installed.
import { inject, onTestFinished } from 'vitest'
import { hasPgBouncer, type Pooler, type PoolerOptions, startPooler as startBefore } from '../../faults/pooler.ts'

/** To be given to `describe.skipIf`. Says so when there is nothing to test with. */
export const withoutPgBouncer = !hasPgBouncer
if (withoutPgBouncer)
  console.warn('PgBouncer is not installed (or set HOLDFAST_TEST_PGBOUNCER): its tests are skipped.')

/** Stopped when the test has finished, at the latest. */
export async function startPooler(options: PoolerOptions): Promise<Pooler> {
  const pooler = await startBefore(inject('adminUrl'), options)
  onTestFinished(() => pooler.stop())
  return pooler
}
