import { arrayLiteral, DeadlockError, type Executor, type Statement, sqlstateOf } from '../postgres/index.js'

const advisoryLock = /advisory lock \[\d+,(\d+),(\d+),1\]/g

/** Replaces the keys in PostgreSQL's deadlock report with names. Returns other errors unchanged. */
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

// PostgreSQL's error messages show a key as two unsigned 32-bit halves.
function keyOf(high: string, low: string): string {
  return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low)).toString()
}
