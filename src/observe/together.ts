import type { Executor, Statement } from '../postgres/index.js'

/**
 * Asks several statements as one: one round trip, one snapshot. Each answers with its rows, as JSON makes them. They have their
 * values in common.
 */
export class Together<Rows> {
  /** As it is asked. */
  readonly text: string

  constructor(parts: Readonly<Record<keyof Rows & string, Statement>>) {
    const answers = Object.entries<Statement>(parts).map(
      ([name, { text }]) => `'${name}', (\nselect json_agg(part)\nfrom (\n${text}\n) as part\n)`,
    )
    this.text = `select json_build_object(${answers.join(', ')}) as answer`
  }

  async ask(executor: Executor, values: readonly unknown[] = []): Promise<{ [Name in keyof Rows]: Rows[Name][] }> {
    type Answer = { [Name in keyof Rows]: Rows[Name][] | null }
    const [row] = await executor.query<{ answer: Answer }>(this.text, values)
    const told = Object.entries<unknown>(row!.answer).map(([name, rows]) => [name, rows ?? []])
    return Object.fromEntries(told)
  }
}
