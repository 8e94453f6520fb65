import { randomInt } from 'node:crypto'
import type { Executor } from './database.js'
import { SessionLocksUnavailableError } from './errors.js'
import { lockClass } from './lock-classes.js'
import type { Session } from './session.js'
import type { Statement } from './statements.js'

/**
 * Proves that session locks exclude other sessions. The proof tests the server's behavior and does not rely on the server's name.
 *
 * The session acquires a lock. Then a pool connection tries to acquire the same lock for one statement and must fail. If the pool
 * connection succeeds, the two connections use different databases or share one session, or the server does not enforce locks. A
 * transaction pooler in front of the session itself was already detected when the session was opened.
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
  // The session is not used by anything else yet, and its later statements run after this one.
  session.run(statements.unlock, lock).catch(() => {})
}
