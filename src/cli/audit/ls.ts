import { Audit, type AuditEntry } from '../../acts/index.js'
import { withDatabase } from '../connect.js'
import { printMessage } from '../failure.js'
import { formatSeconds } from '../format-time.js'
import { type Column, pipedColumns, plainColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function auditLs(settings: Settings): Promise<void> {
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const sinceMs = settings.durationMs('since')
  const entries = await withDatabase(settings, (database, schema) => new Audit(database, schema).latest(limit, sinceMs))
  printRows<'audit-ls'>(settings, entries, columns)
  if (entries.length === 0) printMessage(sinceMs === undefined ? 'There are no acts.' : 'There are no acts since then.')
  if (entries.length === limit) printMessage(`Only the latest ${limit} acts are shown. Use --limit to show more.`)
}

const columns: Column<AuditEntry>[] = [
  { title: 'WHEN', value: ({ at }) => at, shown: ({ at }) => formatSeconds(at) },
  ...plainColumns<AuditEntry>({ VISITOR: 'visitor', ACT: 'act', SUBJECT: 'subject' }),
  {
    title: 'OUTCOME',
    value: ({ outcome, error }) => error ?? outcome,
    shown: ({ outcome, error, endedAt }) => error ?? outcome ?? (endedAt ? '' : 'unknown'),
    colour: ({ error }) => (error ? 'red' : undefined),
  },
  ...pipedColumns<AuditEntry>({ REASON: 'reason', ENDED: 'endedAt', ID: 'id' }),
]
