// A statement for several requests fails after some locks were granted, while another statement is in flight on the same session.
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnreachableError } from '../../src/index.js'
import type { ArbiterOptions } from '../../src/locks/arbiter.js'
import { LockBatcher } from '../../src/locks/lock-batcher.js'
import { LockBudget } from '../../src/locks/lock-budget.js'
import { WaitPool } from '../../src/locks/wait-pool.js'
import { loadStatements, Session, type SessionStatements } from '../../src/postgres/index.js'
import { caught, sqlSession, until, Witness } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

test('a cancelled statement releases its own locks, and no locks of other statements', async () => {
  const url = await databaseUrl()
  const witness = new Witness(url)
  onTestFinished(() => witness.close())
  const { locks, id } = await open({ url })
  const anchor = await witness.anchorOf(id)
  const names = (what: string) => Array.from({ length: 10 }, (_, at) => `${what} ${at}`)
  const held = await Promise.all(names('handed on').map((name) => locks.acquire(name)))
  const waiting = names('handed on').map((name) => locks.acquire(name))

  // The statements take their locks. Then they wait for the table lock, because they check whether a lease has the names.
  const other = await sqlSession(url)
  await other.query('begin; lock table holdfast.lease in access exclusive mode')
  const waitingStatement = async () => {
    const text = "select query_start as since from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'"
    return (await witness.query<{ since: Date }>(text, [anchor]))[0]
  }
  const fresh = names('fresh').map((name) => locks.acquire(name))
  const releases = held.map((lock) => lock.release())
  const first = await until('a statement waits for the table lock', waitingStatement)
  await witness.query('select pg_cancel_backend($1)', [anchor])
  await until('the next statement waits for the table lock', async () => {
    const next = await waitingStatement()
    return next && next.since > first.since
  })
  await other.query('commit')

  await Promise.all(releases)
  const granted = await Promise.all([...waiting, ...fresh])
  const heldKeys = (await witness.locks()).map(({ key }) => key)
  expect(granted.flatMap(({ keys }) => keys).filter((key) => !heldKeys.includes(key))).toEqual([])
  await Promise.all(granted.map((lock) => lock.release()))
  await until('no lock is held', async () => (await witness.locks()).length === 0)
})

test('a session that is lost while it opens does not occupy a wait connection', async () => {
  const url = await databaseUrl()
  const load = <Name extends string>(file: string) =>
    loadStatements<Name>(new URL(`../../src/${file}`, import.meta.url), 'holdfast')
  const statements = load<keyof ArbiterOptions['statements']>('locks/locks.sql')
  const opened: Session[] = []
  const openLockSession = async () => {
    const session = await Session.open({
      connection: { connectionString: url },
      applicationName: 'holdfast lost',
      expiryMs: 10_000,
      statements: load<keyof SessionStatements>('postgres/session.sql'),
    })
    // The first session is lost together with its last response.
    if (opened.push(session) === 1) session.lose(new DatabaseUnreachableError('The session was ended'))
    return session
  }
  const budget = new LockBudget(statements.count_locks)
  const newBatcher = (session: Session) => new LockBatcher(session, statements, budget)
  const pool = new WaitPool({ openLockSession } as never, statements, 10_000, 1, newBatcher)
  onTestFinished(() => pool.close())
  await caught(DatabaseUnreachableError, pool.acquire(0))
  const connection = await pool.acquire(0)
  expect(connection?.batcher.session).toBe(opened[1])
  await pool.release(connection!)
})
