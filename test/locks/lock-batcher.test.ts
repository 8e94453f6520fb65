// A statement for several requests fails after some locks were granted, while another statement is in flight on the same session.
import { expect, onTestFinished, test } from 'vitest'
import { sqlSession, until, Witness } from '../setup/facts.js'
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
