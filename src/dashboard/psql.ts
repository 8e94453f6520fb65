import { statementByText } from '../postgres/index.js'
import type { RecordedQuery } from './record-queries.js'
import type { StatementList } from './wire.js'

/** Prepares recorded queries for psql. Each statement appears once, with its values as literals. */
export function statementListOf(queries: readonly RecordedQuery[]): StatementList {
  const statements = queries.map(({ text, values }) => ({
    purpose: statementByText(text)?.purpose ?? '',
    text: `${withValues(text, values)};`,
  }))
  return { statements: [...new Map(statements.map((one) => [one.text, one])).values()] }
}

/** Matches parameters such as $1, and strings, quoted names, comments and bodies, whose content must not change. */
const tokens = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$\$[\s\S]*?\$\$|\$(\d+)/g

/** Replaces the statement's parameters with literals. */
export function withValues(text: string, values: readonly unknown[]): string {
  return text.replace(tokens, (piece, number?: string) => (number ? literal(values[Number(number) - 1]) : piece))
}

/** Formats a value as a quoted literal without a type. PostgreSQL infers the type, as it does for a parameter. */
export function literal(value: unknown): string {
  const text = textOf(value)
  return text === null ? 'null' : quote(text)
}

function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`
  if (Array.isArray(value)) return arrayOf(value)
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function arrayOf(values: readonly unknown[]): string {
  const items = values.map((value) => {
    if (Array.isArray(value)) return arrayOf(value)
    const text = textOf(value)
    return text === null ? 'null' : `"${text.replace(/["\\]/g, '\\$&')}"`
  })
  return `{${items.join(',')}}`
}

/** Invisible and direction-changing characters, which are escaped, because people copy and paste the statement. */
const invisible = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

function quote(text: string): string {
  const quoted = text.replaceAll("'", "''")
  if (!/[\\\p{Cc}\p{Cf}\u2028\u2029]/u.test(quoted)) return `'${quoted}'`
  const escaped = quoted.replaceAll('\\', '\\\\').replace(invisible, (character) => {
    const code = character.codePointAt(0)!.toString(16)
    return code.length <= 4 ? `\\u${code.padStart(4, '0')}` : `\\U${code.padStart(8, '0')}`
  })
  return `E'${escaped}'`
}
