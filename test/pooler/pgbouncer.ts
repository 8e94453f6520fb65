// Starts a PgBouncer for a test, in front of the server of the test run, if PgBouncer is installed.
import { inject, onTestFinished } from 'vitest'
import { hasPgBouncer, type Pooler, type PoolerOptions, startPooler as startBefore } from '../../faults/pooler.ts'

/** Argument for `describe.skipIf`. Prints a warning if PgBouncer is not installed. */
export const withoutPgBouncer = !hasPgBouncer
if (withoutPgBouncer)
  console.warn('PgBouncer is not installed, so its tests are skipped. HOLDFAST_TEST_PGBOUNCER can name its path.')

/** Starts a PgBouncer, and stops it when the test has finished. */
export async function startPooler(options: PoolerOptions): Promise<Pooler> {
  const pooler = await startBefore(inject('adminUrl'), options)
  onTestFinished(() => pooler.stop())
  return pooler
}
