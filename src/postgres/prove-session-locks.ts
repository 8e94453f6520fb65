import { randomInt } from 'node:crypto'
import type { Executor } from './database.js'
import { SessionLocksUnavailableError } from './errors.js'
import { lockClass } from './lock-classes.js'
import type { Session } from './session.js'
import type { Statement } from './statements.js'

/**
 * Proves that session locks exclude other sessions, by behavior and not by the name of the server.
 *
 * The session takes a lock. Then a connection of the pool tries the same lock for one statement and must fail. If it succeeds, the two
 * connections use different databases or one session, or the server does not enforce locks. A transaction pooler in front of the session
 * itself was detected when the session was opened.
 */
export type ProofStatements = Record<'lock' | 'unlock' | 'try_lock' | 'server_identity', Statement>

export async function proveSessionLocks(
  session: Session,
  other: Executor,
  statements: ProofStatements,
  schema: string,
): Promise<void> {
  const lock = [lockClass(schema, 'truth'), randomInt(2 ** 31 - 1)]
  await session.run(statements.lock, lock)
  const [attempt] = await other.query<{ granted: boolean; backend_pid: number }>(statements.try_lock.text, lock)
  if (attempt!.granted) {
    const [[here]] = (await session.run(statements.server_identity)) as [[string]]
    const [there] = await other.query<{ identity: string }>(statements.server_identity.text)
    if (here !== there!.identity) throw new SessionLocksUnavailableError('other-database')
    const oneSession = attempt!.backend_pid === session.backendPid
    throw new SessionLocksUnavailableError(oneSession ? 'single-session' : 'locks-not-enforced')
  }
  await session.run(statements.unlock, lock)
}
