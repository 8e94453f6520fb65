import { clip } from '../base/index.js'
import { type Executor, loadStatements, type Reader, type Statement } from '../postgres/index.js'
import type { Consequence } from './act.js'

/** Audit entry for one act. */
export interface AuditEntry {
  /** ID of the entry. */
  readonly id: string
  /** Time when the act began. */
  readonly at: Date
  /** Name of the visitor. */
  readonly visitor: string
  /** Name of the act, such as `retry-job`. */
  readonly act: string
  /** Object that the act changed. */
  readonly subject: string
  /** Reason that the visitor gave. */
  readonly reason: string | null
  /** Text of the preview, which is computed immediately before the act. */
  readonly consequence: string
  /**
   * Time when the act ended. Null if the process crashed or lost its database connection before it could record the
   * outcome.
   */
  readonly endedAt: Date | null
  /** Outcome of the act. Null if the act failed or has not ended. */
  readonly outcome: string | null
  /** Error with which the act failed. */
  readonly error: string | null
}

interface AuditRow extends Omit<AuditEntry, 'at' | 'endedAt'> {
  readonly at_ms: number
  readonly ended_ms: number | null
}

/** Records each act before it runs, and its outcome afterwards. An act that cannot be recorded does not run. */
export class Audit {
  readonly #executor: Executor & Reader
  readonly #sql: Record<'begin' | 'end' | 'latest', Statement>

  constructor(executor: Executor & Reader, schema: string) {
    this.#executor = executor
    this.#sql = loadStatements(new URL('./audit.sql', import.meta.url), schema)
  }

  /** Returns the id of the new entry. */
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

  async latest(limit: number, sinceMs?: number): Promise<AuditEntry[]> {
    const rows = await this.#executor.read<AuditRow>(this.#sql.latest.text, [limit, sinceMs ?? null])
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
