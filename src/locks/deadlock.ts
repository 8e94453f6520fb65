import { arrayLiteral, DeadlockError, type Executor, type Statement, sqlstateOf } from '../postgres/index.js'

const advisoryLock = /advisory lock \[\d+,(\d+),(\d+),1\]/g

/** PostgreSQL's own report of a deadlock speaks of numbers; this puts the names in. Other errors pass through. */
export async function withNamesOfDeadlock(error: unknown, database: Executor, labels: Statement): Promise<unknown> {
  if (!(error instanceof DeadlockError) || sqlstateOf(error) === undefined) return error
  const keys = new Set<string>()
  for (const side of error.cycle) for (const [, high, low] of side.matchAll(advisoryLock)) keys.add(keyOf(high!, low!))
  const rows = await database.query<{ key: string; label: string }>(labels.text, [arrayLiteral(keys)]).catch(() => [])
  const names = new Map(rows.map(({ key, label }) => [key, label]))
  const named = error.cycle.map((side) =>
    side.replace(advisoryLock, (number, high, low) => {
      const name = names.get(keyOf(high, low))
      return name ? `"${name}"` : number
    }),
  )
  return new DeadlockError(named, error.cause)
}

// pg_locks and error messages show the two halves of a key as unsigned numbers.
function keyOf(high: string, low: string): string {
  return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low)).toString()
}
