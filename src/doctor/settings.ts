import { formatDuration } from '../base/index.js'
import { describeOrigin, settingChange } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding } from './finding.js'

interface Setting {
  name: string
  setting: string
  source: string
}

interface Timeout {
  /** From here on it does no harm; in milliseconds. */
  readonly minMs: (context: DoctorContext) => number
  readonly why: string
}

const timeouts: Record<string, Timeout> = {
  statement_timeout: {
    minMs: () => 5_000,
    why: 'Claims, sweeps and imports are cancelled in their middle when the database is slow, just when they matter.',
  },
  lock_timeout: {
    minMs: () => 2_000,
    why: 'Statements that wait for a row of somebody else, for as long as one commit takes, fail instead.',
  },
  transaction_timeout: {
    minMs: ({ expiryMs }) => expiryMs,
    why: 'The transaction of a handler is ended in its middle, and the handler runs again.',
  },
  idle_in_transaction_session_timeout: {
    minMs: ({ expiryMs }) => expiryMs,
    why: 'A handler that writes by its transaction, and then waits for something else, loses it and runs again.',
  },
  idle_session_timeout: {
    minMs: ({ expiryMs }) => expiryMs,
    why: 'The server ends connections of pools before the pools do, and the next statement on one fails.',
  },
}

/** What the server, the database or the role sets for the sessions of pools. The anchors set their own. */
export const settings: Check = {
  name: 'settings that every session begins with',
  needsSchema: false,
  async run(context) {
    const all = await context.queryAsOthers<Setting>('settings')
    return all.flatMap((setting) => [
      ...shortTimeout(context, setting),
      ...readOnly(context, setting),
      ...commitsNotFlushed(context, setting),
      ...autovacuumOff(setting),
    ])
  },
}

function shortTimeout(context: DoctorContext, { name, setting, source }: Setting): Finding[] {
  const timeout = timeouts[name]
  const ms = Number(setting)
  if (!timeout || ms === 0 || ms >= timeout.minMs(context)) return []
  const minMs = timeout.minMs(context)
  return [
    finding({
      id: 'timeout-short',
      severity: 'risky',
      subject: name,
      text: `${name} is ${formatDuration(ms)}, ${describeOrigin(source)}`,
      why: timeout.why,
      facts: { setting: name, ms, source, min_ms: minMs },
      fix: unset(context, name, source, `${minMs}ms`, `Set it to ${formatDuration(minMs)} or more, or not at all.`),
    }),
  ]
}

function readOnly(context: DoctorContext, { name, setting, source }: Setting): Finding[] {
  if (name !== 'default_transaction_read_only' || setting === 'off') return []
  return [
    finding({
      id: 'read-only',
      severity: 'wrong',
      text: `Transactions are read-only by default, ${describeOrigin(source)}`,
      why: 'Leases, jobs, schedules and all else that is a row cannot be written.',
      facts: { source },
      fix: unset(context, name, source, 'off', 'Let sessions of this role write.'),
    }),
  ]
}

function commitsNotFlushed(context: DoctorContext, { name, setting, source }: Setting): Finding[] {
  if (name !== 'synchronous_commit' || setting !== 'off') return []
  return [
    finding({
      id: 'commits-not-flushed',
      severity: 'risky',
      text: `synchronous_commit is off, ${describeOrigin(source)}`,
      why: 'A crash of the server forgets jobs that were enqueued, and runs that were recorded, a moment before.',
      facts: { source },
      fix: unset(context, name, source, 'on', 'Let commits be flushed. Leases are, in any case.'),
    }),
  ]
}

function autovacuumOff({ name, setting }: Setting): Finding[] {
  if (!['autovacuum', 'track_counts'].includes(name) || setting === 'on') return []
  return [
    finding({
      id: 'autovacuum-off',
      severity: 'risky',
      subject: name,
      text: `${name} is off, so nothing is vacuumed by itself`,
      why: 'Dead rows pile up in tables that change all the time, and every look at them takes longer.',
      facts: { setting: name },
      fix: {
        text: 'Switch it on.',
        sql: [`alter system set ${name} = on`, 'select pg_reload_conf()'],
      },
    }),
  ]
}

/** Undoes a setting where it was made, or else overrides it for the role that we connect with, and for nobody else. */
function unset({ server }: DoctorContext, name: string, source: string, value: string, advice: string) {
  const change = settingChange(name, source, value, server)
  return change
    ? { text: advice, sql: [change] }
    : { text: `${advice} It stands in the address, or among the options of the pool.` }
}
