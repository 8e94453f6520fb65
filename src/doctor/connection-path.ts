import { randomBytes } from 'node:crypto'
import { Events, HoldfastError, shellQuote } from '../base/index.js'
import { Anchor, type Session, SessionLocksUnavailableError, type UnavailableReason } from '../postgres/index.js'
import type { Check, DoctorContext } from './doctor-context.js'
import { type Fact, type Finding, type FindingInput, finding } from './finding.js'

const receivedWithinMs = 5_000

/**
 * Does what every instance does when it opens: a session of its own, the truth test, the settings that make the server end a
 * silent session, and LISTEN. What a pooler calls itself is not asked.
 */
export const connectionPath: Check = {
  name: 'the path to the server, by a session like those of the instances',
  needsSchema: false,
  async run(context) {
    const { database, direct, schema, expiryMs } = context
    const anchor = new Anchor({
      database,
      connection: direct ?? database.connection,
      schema,
      namespace: 'doctor',
      expiryMs,
      version: '',
      events: new Events(),
    })
    try {
      await anchor.prove()
      const session = anchor.session!
      context.path = session.direct ? 'direct' : 'session pooler'
      return [
        ...(session.direct ? [] : [sessionPooler()]),
        ...refusedSettingFindings(session.refusedSettings, null),
        ...(await lostNotifications(context, session)),
      ]
    } catch (error) {
      if (error instanceof SessionLocksUnavailableError) return [await unfit(context, error)]
      if (direct && error instanceof HoldfastError) return [wrongDirectUrl(error.message, error.hint)]
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
    return finding({ ...common, id: 'read-replica', why: 'Nothing can be coordinated there: it takes no writes.' })
  }
  return finding({ ...common, id: 'session-locks', why: 'Two instances would both believe that they hold one lock.' })
}

async function transactionPooler(context: DoctorContext, seen: string): Promise<Finding> {
  context.path = 'transaction pooler'
  const { address, port, database, role } = context.server
  const host = address?.includes(':') ? `[${address}]` : (address ?? 'HOST')
  const direct = `postgres://${encodeURIComponent(role)}@${host}:${port ?? 5432}/${encodeURIComponent(database)}`
  const instances = await context.aliveInstances()
  const isMeant = instances.length > 0 && instances.every(({ pooler }) => pooler === 'any')
  return finding({
    id: 'transaction-pooler',
    severity: isMeant ? 'note' : 'wrong',
    text: isMeant ? `${seen}. All living instances were opened with anchor: "none", and need no session` : seen,
    why: 'Without a session there are no locks that end with their holder: opening with an anchor is refused, and so is `lock run`.',
    facts: { direct_url_given: context.direct !== undefined, server_address: address, server_port: port },
    fix: {
      text: context.direct
        ? 'The direct URL, too, leads through a pooler. Give the address of PostgreSQL itself, or a port in session mode.'
        : 'Give the address that leads past the pooler, as directUrl in Holdfast.open and in the environment of the command line, with a password where there is one. This is what the server calls itself; or open with anchor: "none".',
      commands: [`export HOLDFAST_DIRECT_URL=${shellQuote(direct)}`],
    },
  })
}

function wrongDirectUrl(seen: string, hint: string | undefined): Finding {
  return finding({
    id: 'direct-url',
    severity: 'wrong',
    text: `The direct URL does not lead where the database is: ${seen}`,
    why: 'Locks would be taken where nobody else sees them, or not at all.',
    fix: { text: hint ?? 'Give the address of the same database, past the pooler.' },
  })
}

function sessionPooler(): Finding {
  return finding({
    id: 'session-pooler',
    severity: 'note',
    text: 'A pooler in session mode stands between. Session locks work through it',
    why: 'When it hides that a client has died, the lock of a killed process is free after the expiry, and not in milliseconds.',
    fix: { text: 'Nothing need be done. A direct URL past the pooler makes takeovers faster.' },
  })
}

const explanations: Record<string, string> = {
  idle_session_timeout: 'A frozen or cut-off holder would keep its locks for good.',
  client_connection_check_interval:
    'The lock of a process that dies in mid-statement is free only when the statement ends.',
  transaction_timeout: 'A statement under way when the network is cut is ended by keepalives alone.',
}

/** Settings that a session of ours could not make. On a Unix socket those of TCP are 0, and not missed. */
export function refusedSettingFindings(
  refused: Readonly<Record<string, { wanted: string; got: string | null }>>,
  instance: string | null,
): Finding[] {
  const all = Object.entries(refused).filter(([name, { got }]) => !(name.startsWith('tcp_') && got === '0'))
  return all.map(([name, { wanted, got }]) => {
    const facts: Record<string, Fact> = { setting: name, wanted, got, instance }
    const who = instance === null ? 'A session' : `The session of instance ${instance}`
    const isMissing = got === null
    return finding({
      id: 'settings-refused',
      // What its version does not have, the server cannot be blamed for.
      severity: name === 'idle_session_timeout' ? 'wrong' : isMissing ? 'note' : 'risky',
      subject: instance === null ? name : `${name} of ${instance}`,
      text: isMissing
        ? `${who} wanted ${name}, which this server does not have`
        : `${who} set ${name} to ${wanted}, and it is ${got}`,
      why: explanations[name] ?? 'Holders that are gone are noticed later than they should be.',
      facts,
      fix: {
        text: isMissing
          ? 'It comes with a newer version of PostgreSQL.'
          : 'Something between the client and the server, or the system that the server runs on, does not let it be set: connect directly, or look at the notes of your provider.',
      },
    })
  })
}

/** Sends a message through the database and waits for it on the session. */
async function lostNotifications(context: DoctorContext, session: Session): Promise<Finding[]> {
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
    if (!sent && (await received)) return []
    return [
      finding({
        id: 'notifications-lost',
        severity: 'wrong',
        text: sent
          ? `A notification could not be sent: ${sent.message}`
          : 'A notification was sent, and not heard within 5 s',
        why: 'Whoever waits for a lease, a job or a permit is woken by notifications; without them everything waits for the next look.',
        facts: { error: sent?.message ?? null },
        fix: {
          text: 'Where the queue of notifications is full, end the transaction that keeps it so (see notification-queue). Otherwise something between the client and the server keeps them back: connect directly.',
        },
      }),
    ]
  } finally {
    clearTimeout(timer)
  }
}
