import type pg from 'pg'
import type { Random } from '../../test/property/random.ts'
import type { Fixture, Guarded } from './fixture.ts'

/** Writes under a name that is held, in one transaction with its guard, before or after work that may take long. */
export async function writeUnder({ transaction, keep }: Fixture, handle: Guarded, name: string, random: Random) {
  const { fence = handle.term } = handle
  await transaction(async (tx) => {
    if (random.chance(0.5)) await keep(random)
    await handle.guard(tx)
    if (random.chance(0.2)) await keep(random)
    await write(tx, name, fence)
  })
}

/** The same by SQL, of somebody who does not listen to signals: only the database can refuse what comes too late. */
export async function writeDeaf({ transaction, keep }: Fixture, name: string, fence: number, random: Random) {
  await keep(random)
  await transaction(async (tx) => {
    await tx.query("select holdfast.guard('default', $1, $2)", [name, fence])
    await write(tx, name, fence)
  })
}

function write(tx: pg.PoolClient, name: string, fence: number | undefined) {
  return tx.query('insert into ledger (what, fence, pid) values ($1, $2, $3)', [name, fence, process.pid])
}
