import type pg from 'pg'
import type { Random } from '../../test/property/random.ts'
import { now } from '../history.ts'
import type { Fixture, GuardedHandle } from './fixture.ts'

/** Hold whose guard protects the write. */
interface WritingHold {
  name: string
  hold: string
}

let guards = 0

/** Writes to the ledger in one transaction with the handle's guard. Pauses before or after the guard, sometimes for a long time. */
export async function writeGuarded(
  fixture: Fixture,
  handle: GuardedHandle,
  { name, hold }: WritingHold,
  random: Random,
) {
  const { fence = handle.term } = handle
  await commitGuarded(fixture, async (tx) => {
    if (random.chance(0.5)) await fixture.pause(random)
    const id = await recordGuard(fixture, { hold, checksHold: true }, () => handle.guard(tx))
    if (random.chance(0.2)) await fixture.pause(random)
    await write(tx, { name, holder: fixture.holder, fence })
    return id
  })
}

/** Writes with the SQL function's guard and ignores the signal, so that only the database can reject a late write. */
export async function writeGuardedBySql(
  fixture: Fixture,
  { name, hold, fence }: WritingHold & { fence: number },
  random: Random,
) {
  await fixture.pause(random)
  await commitGuarded(fixture, async (tx) => {
    const id = await recordGuard(fixture, { hold, checksHold: false }, () =>
      tx.query("select holdfast.guard('default', $1, $2)", [name, fence]),
    )
    await write(tx, { name, holder: fixture.holder, fence })
    return id
  })
}

/** Runs the work in a transaction, and records that the guard whose id it returns was committed. */
async function commitGuarded({ transaction, write }: Fixture, work: (tx: pg.PoolClient) => Promise<string>) {
  write('committed', { id: await transaction(work) })
}

/** Records that a guard has passed, and returns its id. */
async function recordGuard({ write }: Fixture, facts: object, guard: () => Promise<unknown>) {
  const from = now()
  await guard()
  const id = `${process.pid}:${++guards}`
  write('guarded', { id, from, ...facts })
  return id
}

function write(
  tx: pg.PoolClient,
  { name, holder, fence }: { name: string; holder: string; fence: number | undefined },
) {
  return tx.query('insert into public.ledger (what, fence, holder) values ($1, $2, $3)', [name, fence, holder])
}
