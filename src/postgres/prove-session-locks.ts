import { randomInt } from 'node:crypto'
import type { Executor } from './database.js'
import { SessionLocksUnavailableError } from './errors.js'
import { lockClass } from './lock-classes.js'
import type { Session } from './session.js'
import type { Statement } from './statements.js'

/**
 * The truth test: do session locks exclude anybody here? Told by behaviour, not by what the server calls itself.
 *
 * The session takes a lock. Another connection (the pool, which may go through a pooler) tries the same one, for a
 * single statement. It must be refused. If it is let in, the two lead to different databases, or are one session, or
 * the locks are not enforced. Poolers before the session itself were caught when it was opened.
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
