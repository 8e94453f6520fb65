import { ReadOnlyError, type WhyReadOnly } from './errors.js'
import type { Database } from './port.js'
import { changeOf, originOf } from './setting-source.js'
import { loadStatements } from './statements.js'

interface Row {
  readonly is_standby: boolean
  readonly is_default: boolean
  readonly source: string
  readonly role: string
  readonly database: string
}

/** How long the server is asked. */
const answerWithinMs = 2_000

const sql = loadStatements<'why_read_only'>(new URL('./read-only.sql', import.meta.url), 'holdfast')

/**
 * Tells a standby from a server on which `default_transaction_read_only` is on: PostgreSQL refuses a write with the same words
 * (25006), but the ways out differ. Returns any other error as it came, and this one where the server does not answer.
 */
export async function explainReadOnly(error: unknown, database: Pick<Database, 'read'>): Promise<unknown> {
  if (!(error instanceof ReadOnlyError) || error.because !== undefined) return error
  const [row] = await database.read<Row>(sql.why_read_only.text, [], answerWithinMs).catch(() => [])
  const why = row && whyOf(row)
  return why ? new ReadOnlyError(error.cause, why) : error
}

function whyOf({ is_standby, is_default, source, ...who }: Row): WhyReadOnly | undefined {
  if (is_standby) return { because: 'standby' }
  if (!is_default) return undefined
  const change = changeOf('default_transaction_read_only', source, 'off', who)
  return { because: 'setting', origin: originOf(source), change }
}
