// Locks a name, a pair of numbers and a number of a key space with plain SQL, as a script in another language can do. Holdfast then finds these locks
// busy.
import { Holdfast, type Lock } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

await withDatabase(async (url) => {
  const holdfast = await Holdfast.open({ url, namespace: 'billing' })
  const other = await Holdfast.open({ url, namespace: 'shipping' })
  const steps = await holdfast.locks.space('steps')
  const sql = new pg.Client(url)
  await sql.connect()

  await sql.query(`select pg_advisory_lock(holdfast.lock_key('billing', 'nightly-report'))`)
  await sql.query(`select pg_advisory_lock(holdfast.pair_key(7, 42))`)
  await sql.query(`select pg_advisory_lock(holdfast.space_key('billing', 'steps', 3))`)

  await tell('nightly-report in billing', holdfast.locks.tryAcquire('nightly-report'))
  await tell('nightly-report in shipping', other.locks.tryAcquire('nightly-report'))
  await tell('pair 7/42', holdfast.locks.tryAcquire(holdfast.locks.pair(7, 42)))
  await tell('pair 7/43', holdfast.locks.tryAcquire(holdfast.locks.pair(7, 43)))
  await tell('step 3', holdfast.locks.tryAcquire(steps.at(3)))
  await tell('step 4', holdfast.locks.tryAcquire(steps.at(4)))

  await sql.end()
  await holdfast.close()
  await other.close()
})

async function tell(what: string, trying: Promise<Lock | null>) {
  console.log(`${what}: ${(await trying) ? 'acquired' : 'busy'}`)
}

// prints:
// nightly-report in billing: busy
// nightly-report in shipping: acquired
// pair 7/42: busy
// pair 7/43: acquired
// step 3: busy
// step 4: acquired
