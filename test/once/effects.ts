import type { Transaction } from '../../src/index.js'
import { sql } from '../setup/facts.js'

export { gate } from '../setup/facts.js'

/** Creates the table in which tests count effects. The table has no constraint against duplicate effects. */
export async function makeEffects(url: string): Promise<void> {
  await sql(url, 'create table effect (name text not null)')
}

export function effect(tx: Transaction, name: string) {
  return tx.query('insert into effect values ($1) returning name', [name])
}

export async function countEffects(url: string, name: string): Promise<number> {
  const [row] = await sql<{ count: number }>(url, 'select count(*)::int from effect where name = $1', [name])
  return row!.count
}

/** Returns the rows of a key. */
export function deliveries(url: string, key: string) {
  return sql<{ state: string; fence: string }>(url, 'select state, fence from holdfast.delivery where key = $1', [key])
}
