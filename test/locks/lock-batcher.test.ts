// A statement of many that fails half done, while another is under way on the same session.
import { expect, onTestFinished, test } from 'vitest'
import { sqlSession, until, Witness } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'

test('a statement that is cancelled gives back what it took, and nothing that another was granted', async () => {
  const url = await databaseUrl()
  const witness = new Witness(url)
  onTestFinished(() => witness.close())
  const { locks, id } = await open({ url })
  const anchor = await witness.anchorOf(id)
  const names = (what: string) => Array.from({ length: 10 }, (_, at) => `${what} ${at}`)
  const held = await Promise.all(names('handed on').map((name) => locks.acquire(name)))
  const waiting = names('handed on').map((name) => locks.acquire(name))

  // Tries stop in the middle, when they have taken their locks and look whether somebody has the names by lease.
  const other = await sqlSession(url)
  await other.query('begin; lock table holdfast.lease in access exclusive mode')
  const stopped = async () => {
    const text = "select query_start as since from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'"
    return (await witness.query<{ since: Date }>(text, [anchor]))[0]
  }
  const fresh = names('fresh').map((name) => locks.acquire(name))
  const releases = held.map((lock) => lock.release())
  const first = await until('a statement has stopped', stopped)
  await witness.query('select pg_cancel_backend($1)', [anchor])
  await until('the next one has stopped', async () => {
    const next = await stopped()
    return next && next.since > first.since
  })
  await other.query('commit')

  await Promise.all(releases)
  const granted = await Promise.all([...waiting, ...fresh])
  const there = (await witness.locks()).map(({ key }) => key)
  expect(granted.flatMap(({ keys }) => keys).filter((key) => !there.includes(key))).toEqual([])
  await Promise.all(granted.map((lock) => lock.release()))
  await until('nothing is held any more', async () => (await witness.locks()).length === 0)
})
