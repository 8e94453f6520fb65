import type pg from 'pg'
import type { Random } from '../../test/property/random.ts'
import type { Fixture, GuardedHandle } from './fixture.ts'

/** Writes to the ledger in one transaction with the handle's guard. Pauses before or after the guard, sometimes for a long time. */
export async function writeGuarded(
  { transaction, pause }: Fixture,
  handle: GuardedHandle,
  name: string,
  random: Random,
) {
  const { fence = handle.term } = handle
  await transaction(async (tx) => {
    if (random.chance(0.5)) await pause(random)
    await handle.guard(tx)
    if (random.chance(0.2)) await pause(random)
    await write(tx, name, fence)
  })
}

/** Writes with the SQL function's guard and ignores the signal, so that only the database can reject a late write. */
export async function writeGuardedBySql({ transaction, pause }: Fixture, name: string, fence: number, random: Random) {
  await pause(random)
  await transaction(async (tx) => {
    await tx.query("select holdfast.guard('default', $1, $2)", [name, fence])
    await write(tx, name, fence)
  })
}

function write(tx: pg.PoolClient, name: string, fence: number | undefined) {
  return tx.query('insert into ledger (what, fence, pid) values ($1, $2, $3)', [name, fence, process.pid])
}
