import type { Database } from './database.js'
import { ReadOnlyError, type ReadOnlyReason } from './errors.js'
import { describeOrigin, settingChange } from './setting-source.js'
import { loadStatements } from './statements.js'

interface Row {
  readonly is_standby: boolean
  readonly is_default: boolean
  readonly source: string
  readonly role: string
  readonly database: string
}

const explainTimeoutMs = 2_000

const sql = loadStatements<'read_only_reason'>(new URL('./read-only.sql', import.meta.url), 'holdfast')

/**
 * Adds the reason to a `ReadOnlyError`: either a standby or `default_transaction_read_only`. PostgreSQL reports both with 25006, but the
 * fixes differ. Returns any other error unchanged. If the server does not respond, the `ReadOnlyError` is also returned unchanged.
 */
export async function explainReadOnly(error: unknown, database: Pick<Database, 'read'>): Promise<unknown> {
  if (!(error instanceof ReadOnlyError) || error.reason !== undefined) return error
  const [row] = await database.read<Row>(sql.read_only_reason.text, [], explainTimeoutMs).catch(() => [])
  const why = row && readOnlyReason(row)
  return why ? new ReadOnlyError(error.cause, why) : error
}

function readOnlyReason({ is_standby, is_default, source, ...who }: Row): ReadOnlyReason | undefined {
  if (is_standby) return { reason: 'standby' }
  if (!is_default) return undefined
  const change = settingChange('default_transaction_read_only', source, 'off', who)
  return { reason: 'setting', origin: describeOrigin(source), change }
}
