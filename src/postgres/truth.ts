import { randomInt } from 'node:crypto'
import { SessionLocksUnavailableError } from './errors.js'
import { lockClass } from './lock-classes.js'
import type { Executor } from './port.js'
import type { Session } from './session.js'
import type { Statement } from './statements.js'

/**
 * The truth test: do session locks exclude anybody here? Told by behaviour, not by what the server calls itself.
 *
 * The session takes a lock. Another connection (the pool, which may go through a pooler) tries the same one, for a
 * single statement. It must be refused. If it is let in, the two lead to different databases, or are one session, or
 * the locks are not enforced. Poolers before the session itself were caught when it was opened.
 */
export type TruthStatements = Record<'claim' | 'unclaim' | 'challenge' | 'whereabouts', Statement>

export async function proveSessionLocks(
  session: Session,
  other: Executor,
  statements: TruthStatements,
  schema: string,
): Promise<void> {
  const lock = [lockClass(schema, 'truth'), randomInt(2 ** 31 - 1)]
  await session.run(statements.claim, lock)
  const [seen] = await other.query<{ let_in: boolean; backend_pid: number }>(statements.challenge.text, lock)
  if (seen!.let_in) {
    const [[here]] = (await session.run(statements.whereabouts)) as [[string]]
    const [there] = await other.query<{ place: string }>(statements.whereabouts.text)
    if (here !== there!.place) throw new SessionLocksUnavailableError('elsewhere')
    const oneSession = seen!.backend_pid === session.backendPid
    throw new SessionLocksUnavailableError(oneSession ? 'single-session' : 'locks-not-enforced')
  }
  await session.run(statements.unclaim, lock)
}
