import type pg from 'pg'
import { loadStatements } from '../postgres/index.js'

/** Result of checking one Holdfast guarantee against the demo's data. */
export interface Verdict {
  /** Guarantee that must always hold. */
  readonly invariant: string
  /** Number of effects that were checked. */
  readonly checked: number
  /** Number of violations. */
  readonly violations: number
  /** One of the violations. Null if there are none. */
  readonly example: string | null
}

/** Uses a single snapshot to check all guarantees. */
export async function prove(pool: pg.Pool, schema: string, namespace: string): Promise<Verdict[]> {
  const { proof } = loadStatements<'proof'>(new URL('./proof.sql', import.meta.url), schema)
  const { rows } = await pool.query<{ [Field in keyof Verdict]: string | null }>(proof.text, [namespace])
  return rows.map(({ invariant, checked, violations, example }) => ({
    invariant: invariant!,
    checked: Number(checked),
    violations: Number(violations),
    example,
  }))
}

export function violationsIn(verdicts: readonly Verdict[]): number {
  return verdicts.reduce((sum, { violations }) => sum + violations, 0)
}
