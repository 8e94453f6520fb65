import type { Opening } from './fleet.js'
import type { Proof } from './world.js'

const lockedNames = `
  select from pg_locks
  where locktype = 'advisory' and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())`
const leasedNames = `select from holdfast.lease where token <> '' and expires_at > clock_timestamp()`

/** What must be true of each room. */
export const proofs: Record<Opening['room'], Proof> = {
  locks: { held: lockedNames },
  leases: { held: leasedNames },
  either: { held: `${lockedNames} union all ${leasedNames}` },
}
