import type { Reader, Statement } from '../postgres/index.js'

/** Asks several statements as one: one round trip, one snapshot. Each answers with its rows, as JSON makes them. */
export class CombinedQuery<Rows> {
  /** As it is asked: the values of the first statement, then those of the next. */
  readonly text: string
  readonly #names: readonly (keyof Rows & string)[]

  constructor(parts: Readonly<Record<keyof Rows & string, Statement>>) {
    this.#names = Object.keys(parts) as (keyof Rows & string)[]
    let before = 0
    const answers = this.#names.map((name) => {
      const numbers = [...parts[name].text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number))
      const text = parts[name].text.replace(/\$(\d+)/g, (_, number) => `$${Number(number) + before}`)
      before += Math.max(0, ...numbers)
      return `'${name}', (\nselect json_agg(part)\nfrom (\n${text}\n) as part\n)`
    })
    this.text = `select json_build_object(${answers.join(', ')}) as answer`
  }

  /** With the values of each. */
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
