import { formatDuration } from '../base/index.js'
import { changeOf, originOf } from '../postgres/index.js'
import { type Finding, finding } from './finding.js'
import type { Check, Patient } from './patient.js'

interface Setting {
  name: string
  setting: string
  source: string
}

interface Timeout {
  /** From here on it does no harm; in milliseconds. */
  readonly least: (patient: Patient) => number
  readonly why: string
}

const timeouts: Record<string, Timeout> = {
  statement_timeout: {
    least: () => 5_000,
    why: 'Claims, sweeps and imports are cancelled in their middle when the database is slow, just when they matter.',
  },
  lock_timeout: {
    least: () => 2_000,
    why: 'Statements that wait for a row of somebody else, for as long as one commit takes, fail instead.',
  },
  transaction_timeout: {
    least: ({ expiryMs }) => expiryMs,
    why: 'The transaction of a handler is ended in its middle, and the handler runs again.',
  },
  idle_in_transaction_session_timeout: {
    least: ({ expiryMs }) => expiryMs,
    why: 'A handler that writes by its transaction, and then waits for something else, loses it and runs again.',
  },
  idle_session_timeout: {
    least: ({ expiryMs }) => expiryMs,
    why: 'The server ends connections of pools before the pools do, and the next statement on one fails.',
  },
}

/** What the server, the database or the role sets for the sessions of pools. The anchors set their own. */
export const settings: Check = {
  name: 'settings that every session begins with',
  needsSchema: false,
  async look(patient) {
    const all = await patient.askPlainly<Setting>('settings')
    return all.flatMap((setting) => [
      ...shortTimeout(patient, setting),
      ...readOnly(patient, setting),
      ...unflushed(patient, setting),
      ...autovacuumOff(setting),
    ])
  },
}

function shortTimeout(patient: Patient, { name, setting, source }: Setting): Finding[] {
  const timeout = timeouts[name]
  const ms = Number(setting)
  if (!timeout || ms === 0 || ms >= timeout.least(patient)) return []
  const leastMs = timeout.least(patient)
  return [
    finding({
      id: 'timeout-short',
      severity: 'risky',
      subject: name,
      seen: `${name} is ${formatDuration(ms)}, ${originOf(source)}`,
      why: timeout.why,
      facts: { setting: name, ms, source, least_ms: leastMs },
      mend: unset(
        patient,
        name,
        source,
        `${leastMs}ms`,
        `Set it to ${formatDuration(leastMs)} or more, or not at all.`,
      ),
    }),
  ]
}

function readOnly(patient: Patient, { name, setting, source }: Setting): Finding[] {
  if (name !== 'default_transaction_read_only' || setting === 'off') return []
  return [
    finding({
      id: 'read-only',
      severity: 'wrong',
      seen: `Transactions are read-only by default, ${originOf(source)}`,
      why: 'Leases, jobs, schedules and all else that is a row cannot be written.',
      facts: { source },
      mend: unset(patient, name, source, 'off', 'Let sessions of this role write.'),
    }),
  ]
}

function unflushed(patient: Patient, { name, setting, source }: Setting): Finding[] {
  if (name !== 'synchronous_commit' || setting !== 'off') return []
  return [
    finding({
      id: 'commits-not-flushed',
      severity: 'risky',
      seen: `synchronous_commit is off, ${originOf(source)}`,
      why: 'A crash of the server forgets jobs that were enqueued, and runs that were recorded, a moment before.',
      facts: { source },
      mend: unset(patient, name, source, 'on', 'Let commits be flushed. Leases are, in any case.'),
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
      seen: `${name} is off, so nothing is vacuumed by itself`,
      why: 'Dead rows pile up in tables that change all the time, and every look at them takes longer.',
      facts: { setting: name },
      mend: {
        what: 'Switch it on.',
        sql: [`alter system set ${name} = on`, 'select pg_reload_conf()'],
      },
    }),
  ]
}

/** Undoes a setting where it was made, or else overrides it for the role that we connect with, and for nobody else. */
function unset({ server }: Patient, name: string, source: string, value: string, what: string) {
  const change = changeOf(name, source, value, server)
  return change
    ? { what, sql: [change] }
    : { what: `${what} It stands in the address, or among the options of the pool.` }
}
