import { randomBytes } from 'node:crypto'
import { Events, HoldfastError, shellQuote } from '../base/index.js'
import {
  Anchor,
  InstanceName,
  type Session,
  SessionLocksUnavailableError,
  type UnavailableReason,
} from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Fact, type Finding, type FindingInput, finding } from './finding.js'

const receivedWithinMs = 5_000

/**
 * Opens an anchor in the same way as an instance does: opens a dedicated session, runs the session lock test, applies
 * the settings that make the server end a silent session, and runs LISTEN. A pooler is detected by its behavior, not by
 * its name.
 */
export const connectionPath: Check = {
  name: 'the connection to the server',
  async run(context) {
    const { database, direct, schema, expiryMs } = context
    const events = new Events()
    const anchor = new Anchor({
      database,
      connection: direct ?? database.connection,
      schema,
      namespace: 'doctor',
      name: new InstanceName(undefined, events),
      retainDays: 0,
      expiryMs,
      version: '',
      events,
    })
    try {
      await anchor.prove()
      const session = anchor.session!
      context.path = session.direct ? 'direct' : 'session pooler'
      return [
        session.direct ? undefined : sessionPooler(),
        ...refusedSettingFindings(session.refusedSettings, null),
        await lostNotifications(context, session),
      ]
    } catch (error) {
      if (error instanceof SessionLocksUnavailableError) return await unfit(context, error)
      if (direct && error instanceof HoldfastError) return wrongDirectUrl(error.message, error.hint)
      throw error
    } finally {
      await anchor.close()
    }
  },
}

async function unfit(context: DoctorContext, error: SessionLocksUnavailableError): Promise<Finding> {
  const { message: text, hint } = error
  if (error.reason === 'transaction-pooler') return transactionPooler(context, text)
  if (error.reason === 'other-database') return wrongDirectUrl(text, hint)
  const common: Pick<FindingInput, 'severity' | 'text' | 'facts' | 'fix'> = {
    severity: 'wrong',
    text,
    facts: { reason: error.reason satisfies UnavailableReason, server: context.server.version_text },
    fix: { text: hint! },
  }
  if (error.reason === 'read-replica') {
    return finding({
      ...common,
      id: 'read-replica',
      why: 'Holdfast has to write to the database, and a replica does not accept writes.',
    })
  }
  return finding({ ...common, id: 'session-locks', why: 'Two instances could hold the same lock at the same time.' })
}

async function transactionPooler(context: DoctorContext, message: string): Promise<Finding> {
  context.path = 'transaction pooler'
  const { address, port, database, role } = context.server
  const host = address?.includes(':') ? `[${address}]` : (address ?? 'HOST')
  const direct = `postgres://${encodeURIComponent(role)}@${host}:${port ?? 5432}/${encodeURIComponent(database)}`
  const instances = await context.aliveInstances()
  const isMeant = instances.length > 0 && instances.every(({ pooler }) => pooler === 'any')
  return finding({
    id: 'transaction-pooler',
    severity: isMeant ? 'note' : 'wrong',
    text: isMeant
      ? `${message}. All live instances were opened with anchor: "none" and do not need a dedicated session`
      : message,
    why: 'Session locks need a dedicated session. Instances with an anchor cannot be opened, and `lock run` fails.',
    facts: { direct_url_given: context.direct !== undefined, server_address: address, server_port: port },
    fix: {
      text: context.direct
        ? 'The direct URL also connects through a pooler. Change the direct URL to the address of PostgreSQL itself, or to a pooler port in session mode.'
        : 'Set the address that bypasses the pooler, both as directUrl in Holdfast.open and in the environment of the command line. The command below contains the address that the server reports. Add the password. Alternatively, open with anchor: "none".',
      commands: [`export HOLDFAST_DIRECT_URL=${shellQuote(direct)}`],
    },
  })
}

function wrongDirectUrl(message: string, hint: string | undefined): Finding {
  return finding({
    id: 'direct-url',
    severity: 'wrong',
    text: `The direct URL does not connect to this database: ${message}`,
    why: 'Locks would not exclude other instances, or could not be acquired.',
    fix: { text: hint ?? 'Set the direct URL to the address of the same database without the pooler.' },
  })
}

function sessionPooler(): Finding {
  return finding({
    id: 'session-pooler',
    severity: 'note',
    text: 'The connection goes through a pooler in session mode. Session locks work',
    why: "If the pooler keeps a dead client's session, a killed process's locks are released after the expiry instead of within milliseconds.",
    fix: { text: 'No action is required. A direct URL that bypasses the pooler makes takeovers faster.' },
  })
}

const explanations: Record<string, string> = {
  idle_session_timeout: 'A frozen or disconnected holder would keep its locks forever.',
  client_connection_check_interval:
    'If a process dies during a statement, its locks are released only when the statement ends.',
  transaction_timeout: 'If the network fails during a statement, only TCP keepalives end the statement.',
}

/**
 * Returns findings for settings that a session could not change. On a Unix socket, TCP settings are 0, which is
 * harmless.
 */
export function refusedSettingFindings(
  refused: Readonly<Record<string, { wanted: string; got: string | null }>>,
  instance: string | null,
): Finding[] {
  const all = Object.entries(refused).filter(([name, { got }]) => !(name.startsWith('tcp_') && got === '0'))
  return all.map(([name, { wanted, got }]) => {
    const facts: Record<string, Fact> = { setting: name, wanted, got, instance }
    const who = instance === null ? 'A session' : `The session of ${instance}`
    const isMissing = got === null
    return finding({
      id: 'settings-refused',
      // A missing setting is usually only a note, because older server versions do not have all settings.
      severity: name === 'idle_session_timeout' ? 'wrong' : isMissing ? 'note' : 'risky',
      subject: instance === null ? name : `${name} of ${instance}`,
      text: isMissing
        ? `${who} needs the setting ${name}, which this server does not support`
        : `${who} set ${name} to ${wanted}, but its value is ${got}`,
      why: explanations[name] ?? "The server takes longer than usual to detect that a lock's holder has died.",
      facts,
      fix: {
        text: isMissing
          ? 'Newer versions of PostgreSQL support this setting.'
          : "A pooler or the server's operating system prevents the change. Connect directly, or see your provider's documentation.",
      },
    })
  })
}

/** Sends a notification through the database and waits until the session receives it. */
async function lostNotifications(context: DoctorContext, session: Session): Promise<Finding | undefined> {
  const channel = `holdfast_doctor_${randomBytes(6).toString('hex')}`
  let timer: NodeJS.Timeout | undefined
  const received = new Promise<boolean>((resolve) => {
    session.onNotification((on) => on === channel && resolve(true))
    timer = setTimeout(() => resolve(false), receivedWithinMs)
  })
  try {
    await session.run({ name: `listen ${channel}`, text: `listen ${channel}` })
    const sent = await context.query('notify', [channel]).then(
      () => undefined,
      (error: HoldfastError) => error,
    )
    if (!sent && (await received)) return undefined
    return finding({
      id: 'notifications-lost',
      severity: 'wrong',
      text: sent
        ? `A notification could not be sent: ${sent.message}`
        : 'A test notification did not arrive within 5 s',
      why: 'Notifications wake waiters for leases, jobs and permits. Without notifications, every waiter has to wait until its next poll.',
      facts: { error: sent?.message ?? null },
      fix: {
        text: 'If the notification queue is full, end the transaction that blocks the queue (see notification-queue). Otherwise, a pooler is dropping notifications. Connect directly.',
      },
    })
  } finally {
    clearTimeout(timer)
  }
}
