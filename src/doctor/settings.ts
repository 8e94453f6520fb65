import { formatDuration } from '../base/index.js'
import { describeOrigin, settingChange } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Finding, finding } from './finding.js'

interface Setting {
  name: string
  setting: string
  source: string
}

/** Effects of a timeout that is too short. */
const effects: Record<string, string> = {
  statement_timeout: 'Claims, sweeps and imports are cancelled when the database is slow.',
  lock_timeout: 'Statements that wait for another transaction to commit a row fail.',
  transaction_timeout: 'The server ends the transaction of a running handler, and the handler runs again.',
  idle_in_transaction_session_timeout:
    'If a handler writes through its transaction and then waits, the server ends the transaction, and the handler runs again.',
  idle_session_timeout:
    'The server closes connections before the pools do. The next statement on such a connection fails.',
}

/**
 * Smallest safe values in milliseconds. For all other timeouts, the smallest safe value is the instances' expiry.
 */
const minimums: Record<string, number> = { statement_timeout: 5_000, lock_timeout: 2_000 }

/** Checks pool sessions' default settings. Anchors are not affected, because they override these settings. */
export const settings: Check = {
  name: 'default settings of sessions',
  async run(context) {
    const all = await context.queryAsOthers<Setting>('settings')
    return all.flatMap((setting) => [
      shortTimeout(context, setting),
      readOnly(context, setting),
      commitsNotFlushed(context, setting),
      autovacuumOff(setting),
    ])
  },
}

function shortTimeout(context: DoctorContext, { name, setting, source }: Setting): Finding | undefined {
  const why = effects[name]
  const ms = Number(setting)
  const minMs = minimums[name] ?? context.expiryMs
  if (!why || ms === 0 || ms >= minMs) return undefined
  const advice = `Set the timeout to ${formatDuration(minMs)} or more, or remove the setting.`
  return finding({
    id: 'timeout-short',
    severity: 'risky',
    subject: name,
    text: `${name} is ${formatDuration(ms)}, ${describeOrigin(source)}`,
    why,
    facts: { setting: name, ms, source, min_ms: minMs },
    fix: unset(context, name, source, `${minMs}ms`, advice),
  })
}

function readOnly(context: DoctorContext, { name, setting, source }: Setting): Finding | undefined {
  if (name !== 'default_transaction_read_only' || setting === 'off') return undefined
  return finding({
    id: 'read-only',
    severity: 'wrong',
    text: `Transactions are read-only by default, ${describeOrigin(source)}`,
    why: 'Leases, jobs, schedules and other rows cannot be written.',
    facts: { source },
    fix: unset(context, name, source, 'off', 'Allow sessions of this role to write.'),
  })
}

function commitsNotFlushed(context: DoctorContext, { name, setting, source }: Setting): Finding | undefined {
  if (name !== 'synchronous_commit' || setting !== 'off') return undefined
  return finding({
    id: 'commits-not-flushed',
    severity: 'risky',
    text: `synchronous_commit is off, ${describeOrigin(source)}`,
    why: 'If the server crashes, recently enqueued jobs and recently recorded runs can be lost.',
    facts: { source },
    fix: unset(
      context,
      name,
      source,
      'on',
      'Turn synchronous_commit on. (Leases are flushed to disk regardless of this setting.)',
    ),
  })
}

function autovacuumOff({ name, setting }: Setting): Finding | undefined {
  if (!['autovacuum', 'track_counts'].includes(name) || setting === 'on') return undefined
  return finding({
    id: 'autovacuum-off',
    severity: 'risky',
    subject: name,
    text: `${name} is off, so tables are not vacuumed automatically`,
    why: 'Dead rows accumulate in tables that change often, and every scan takes longer.',
    facts: { setting: name },
    fix: {
      text: 'Turn the setting on.',
      sql: [`alter system set ${name} = on`, 'select pg_reload_conf()'],
    },
  })
}

/**
 * Resets a setting at the level where it was set. If that is impossible, overrides the setting for the current role
 * only.
 */
function unset({ server }: DoctorContext, name: string, source: string, value: string, advice: string) {
  const change = settingChange(name, source, value, server)
  return change
    ? { text: advice, sql: [change] }
    : { text: `${advice} The value comes from the connection URL or from the pool's options.` }
}
