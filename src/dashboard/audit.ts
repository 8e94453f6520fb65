import { clip } from '../base/index.js'
import { type Executor, loadStatements, type Statement } from '../postgres/index.js'
import type { Consequence } from './act.js'

/** Writes down what visitors do: before it is done, and what became of it. What cannot be written down is not done. */
export class Audit {
  readonly #executor: Executor
  readonly #sql: Record<'begin' | 'end', Statement>

  constructor(executor: Executor, schema: string) {
    this.#executor = executor
    this.#sql = loadStatements(new URL('./audit.sql', import.meta.url), schema)
  }

  /** Answers with the number of the entry. */
  async begin(
    visitor: string,
    act: string,
    params: object,
    consequence: Consequence,
    because: string | undefined,
  ): Promise<string> {
    const { subject, says } = consequence
    const values = [
      clip(visitor),
      act,
      clip(subject),
      JSON.stringify(params),
      clip(says),
      because ? clip(because) : null,
    ]
    const [row] = await this.#executor.query<{ id: string }>(this.#sql.begin.text, values)
    return row!.id
  }

  async end(id: string, outcome: string | null, error: string | null): Promise<void> {
    const values = [id, outcome === null ? null : clip(outcome), error === null ? null : clip(error)]
    await this.#executor.query(this.#sql.end.text, values)
  }
}
