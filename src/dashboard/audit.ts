import type { Consequence } from '../acts/index.js'
import { clip } from '../base/index.js'
import { type Executor, loadStatements, type Reader, type Statement } from '../postgres/index.js'

/** What a visitor did. */
export interface AuditEntry {
  readonly id: string
  readonly at: Date
  readonly visitor: string
  readonly act: string
  readonly subject: string
  /** Why, as they said. */
  readonly reason: string | null
  /** What would happen, as it was known a moment before. */
  readonly consequence: string
  /** Null when the dashboard died, or lost the database, before it knew what became of it. */
  readonly endedAt: Date | null
  readonly outcome: string | null
  readonly error: string | null
}

interface AuditRow extends Omit<AuditEntry, 'at' | 'endedAt'> {
  readonly at_ms: number
  readonly ended_ms: number | null
}

/** Writes down what visitors do: before it is done, and what became of it. What cannot be written down is not done. */
export class Audit {
  readonly #executor: Executor & Reader
  readonly #sql: Record<'begin' | 'end' | 'latest', Statement>

  constructor(executor: Executor & Reader, schema: string) {
    this.#executor = executor
    this.#sql = loadStatements(new URL('./audit.sql', import.meta.url), schema)
  }

  /** Answers with the number of the entry. */
  async begin(
    visitor: string,
    act: string,
    params: object,
    consequence: Consequence,
    reason: string | undefined,
  ): Promise<string> {
    const { subject, text } = consequence
    const values = [clip(visitor), act, clip(subject), JSON.stringify(params), clip(text), reason ? clip(reason) : null]
    const [row] = await this.#executor.query<{ id: string }>(this.#sql.begin.text, values)
    return row!.id
  }

  async latest(limit: number): Promise<AuditEntry[]> {
    const rows = await this.#executor.read<AuditRow>(this.#sql.latest.text, [limit])
    return rows.map(({ at_ms, ended_ms, ...same }) => ({
      ...same,
      at: new Date(at_ms),
      endedAt: ended_ms === null ? null : new Date(ended_ms),
    }))
  }

  async end(id: string, outcome: string | null, error: string | null): Promise<void> {
    const values = [id, outcome === null ? null : clip(outcome), error === null ? null : clip(error)]
    await this.#executor.query(this.#sql.end.text, values)
  }
}
