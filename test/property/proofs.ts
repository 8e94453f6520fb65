import type { Proof } from './cluster.js'
import type { Opening } from './fleet.js'
import { judgePermits } from './history.js'

const lockedNames = `
  select from pg_locks
  where locktype = 'advisory' and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())`
const leasedNames = `select from holdfast.lease where token <> '' and expires_at > clock_timestamp()`
const keptNames = `${lockedNames} union all ${leasedNames}`

/** What must be true of each room. */
export const proofs: Record<Opening['room'], Proof> = {
  locks: { held: lockedNames },
  leases: { held: leasedNames },
  either: { held: keptNames },
  elections: { held: keptNames },
  shares: { held: keptNames },
  limits: {
    held: 'select from holdfast.permit where weight > 0 and holdfast.is_present(session)',
    judge: judgePermits,
  },
  once: {
    prepare: 'create table effect (key text, by text)',
    held: "select from holdfast.delivery where state = 'in-flight' and holdfast.is_present(session)",
    async wrong(witness, answers) {
      const effects = await witness.query<{ key: string; by: string; recorded: string }>(`
        select effect.key, effect.by, value->>'by' as recorded
        from effect left join holdfast.delivery on delivery.key = effect.key and state = 'done'`)
      const byKey = new Map(effects.map(({ key, by }) => [key, by]))
      return [
        ...(byKey.size < effects.length ? [`${effects.length} effects of ${byKey.size} deliveries`] : []),
        ...effects
          .filter(({ by, recorded }) => by !== recorded)
          .map((row) => `not as recorded: ${JSON.stringify(row)}`),
        ...answers
          .filter(({ key, by }) => byKey.get(key) !== by)
          .map(({ key, by }) => `${key} was answered with ${by}`),
      ]
    },
  },
}
