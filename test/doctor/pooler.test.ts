// Tests that the doctor detects poolers in both modes, and a direct URL to another server or database, by their behaviour.
import { describe, expect, test } from 'vitest'
import { Events } from '../../src/base/index.js'
import { fix } from '../../src/doctor/index.js'
import { InstanceName, openPgPool, RowPresence } from '../../src/postgres/index.js'
import { startPooler, withoutPgBouncer } from '../pooler/pgbouncer.js'
import { sqlSession, until } from '../setup/facts.js'
import { databaseUrl, open } from '../setup/instances.js'
import { examineDatabase, found, idsOf, isGone } from './fixture.js'

const connection = (url: string) => ({ connectionString: url })

describe.skipIf(withoutPgBouncer)('behind PgBouncer', () => {
  test('doctor prints the direct URL behind PgBouncer in transaction mode', { timeout: 60_000 }, async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 3 })
    const url = pooler.through(direct)
    const [finding] = await found(url, 'transaction-pooler')
    expect(finding).toMatchObject({ severity: 'wrong', facts: { direct_url_given: false } })
    // The doctor cannot know the password.
    const [, printed] = /^export HOLDFAST_DIRECT_URL=(.*)$/.exec(finding!.fix.commands[0]!)!
    const past = new URL(printed!)
    expect(past).toMatchObject({ port: new URL(direct).port, pathname: new URL(direct).pathname, password: '' })
    past.password = new URL(direct).password
    await isGone(url, ['transaction-pooler', 'direct-url'], { direct: connection(past.href) })
    await found(url, 'transaction-pooler', { direct: connection(url) })
    past.pathname = '/postgres'
    const [elsewhere] = await found(url, 'direct-url', { direct: connection(past.href) })
    expect(elsewhere!.text).toContain('different servers or databases')
    past.port = '1'
    const [nowhere] = await found(url, 'direct-url', { direct: connection(past.href) })
    expect(nowhere!.text).toContain('cannot be reached')

    const database = openPgPool(connection(url))
    const events = new Events()
    const name = new InstanceName(undefined, events)
    const about = { schema: 'holdfast', namespace: 'x', name, retainDays: 7, expiryMs: 5_000, version: '0.0.1', events }
    const presence = new RowPresence({ database, ...about })
    await presence.whenPresent()
    expect(await found(url, 'transaction-pooler')).toMatchObject([{ severity: 'note' }])
    await presence.close()
    await database.close()
  })

  test('doctor finds and fixes a lock that a client has left behind PgBouncer in transaction mode', {
    timeout: 60_000,
  }, async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'transaction', backends: 3 })
    const url = pooler.through(direct)
    const holdfast = await open({ url: direct })
    await (await holdfast.locks.acquire('invoice:42')).release()
    const client = await sqlSession(url)
    await client.query('select pg_advisory_lock($1::bigint)', [holdfast.locks.key('invoice:42')])
    await client.end()
    expect(await holdfast.locks.tryAcquire('invoice:42')).toBeNull()
    const left = await until('the doctor finds the lock', async () =>
      (await examineDatabase(url, { toleranceMs: 1 })).findings.find(({ id }) => id === 'lock-of-dead-owner'),
    )
    expect(left).toMatchObject({ severity: 'wrong', facts: { labels: 'invoice:42' }, fix: { fixable: true } })
    const database = openPgPool(connection(url))
    await fix({ database }, left)
    await database.close()
    await isGone(url, 'lock-of-dead-owner', { toleranceMs: 1 })
    await (await holdfast.locks.acquire('invoice:42', { wait: 0 })).release()
  })

  test('doctor finds nothing wrong behind PgBouncer in session mode', async () => {
    const direct = await databaseUrl()
    const pooler = await startPooler({ mode: 'session' })
    const { findings } = await examineDatabase(pooler.through(direct))
    expect(idsOf(findings)).toEqual(['session-pooler'])
    await isGone(direct, 'session-pooler')
  })
})
