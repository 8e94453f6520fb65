import type { Proof } from './cluster.js'
import type { Opening } from './fleet.js'
import { judgePermits } from './history.js'

const lockedNames = `
  select from pg_locks
  where locktype = 'advisory' and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())`
const leasedNames = `select from holdfast.lease where token <> '' and expires_at > clock_timestamp()`
const heldNames = `${lockedNames} union all ${leasedNames}`

/** Checks of each room. */
export const proofs: Record<Opening['room'], Proof> = {
  locks: { held: lockedNames },
  leases: { held: leasedNames },
  either: { held: heldNames },
  elections: { held: heldNames },
  shares: { held: heldNames },
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
        ...(byKey.size < effects.length ? [`${byKey.size} keys have ${effects.length} effects`] : []),
        ...effects
          .filter(({ by, recorded }) => by !== recorded)
          .map((row) => `the recorded run did not make the effect: ${JSON.stringify(row)}`),
        ...answers
          .filter(({ key, by }) => byKey.get(key) !== by)
          .map(({ key, by }) => `a caller of ${key} received the result of run ${by}, which did not make the effect`),
      ]
    },
  },
}
