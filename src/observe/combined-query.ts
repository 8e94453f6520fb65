import type { Reader, Statement } from '../postgres/index.js'

/**
 * Combines several statements into one, so that they need only one round trip and use the same snapshot. The rows are
 * returned as JSON.
 */
export class CombinedQuery<Rows> {
  /**
   * Combined SQL. The first statement's parameters come first, followed by the second statement's parameters, and so
   * on.
   */
  readonly text: string
  readonly #names: readonly (keyof Rows & string)[]

  constructor(parts: Readonly<Record<keyof Rows & string, Statement>>) {
    this.#names = Object.keys(parts) as (keyof Rows & string)[]
    let parameters = 0
    const columns = this.#names.map((name) => {
      const numbers = [...parts[name].text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number))
      const text = parts[name].text.replace(/\$(\d+)/g, (_, number) => `$${Number(number) + parameters}`)
      parameters += Math.max(0, ...numbers)
      return `'${name}', (\nselect json_agg(part)\nfrom (\n${text}\n) as part\n)`
    })
    this.text = `select json_build_object(${columns.join(', ')}) as answer`
  }

  /** Runs the combined query with each statement's parameter values. */
  async read(
    reader: Reader,
    values: { readonly [Name in keyof Rows]?: readonly unknown[] } = {},
  ): Promise<{ [Name in keyof Rows]: Rows[Name][] }> {
    type Answer = { [Name in keyof Rows]: Rows[Name][] | null }
    const all = this.#names.flatMap((name) => values[name] ?? [])
    const [row] = await reader.read<{ answer: Answer }>(this.text, all)
    const rowsByName = Object.entries<unknown>(row!.answer).map(([name, rows]) => [name, rows ?? []])
    return Object.fromEntries(rowsByName)
  }
}
