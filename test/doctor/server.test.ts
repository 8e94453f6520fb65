// Tests problems of a server. The test makes the settings of its own server bad, applies the printed fixes, and restarts the
// server.
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { sql, sqlSession, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'
import { ownDatabase, ownServer } from '../setup/own-server.js'
import { examineDatabase, fixes, found, idsOf, isGone } from './fixture.js'

test('doctor finds and fixes problems of a server: low limits, no autovacuum, a prepared transaction, and a standby', {
  timeout: 120_000,
}, async () => {
  const server = await ownServer()
  const url = await ownDatabase(server)
  const isNew = Number(server.version.split('.')[0]) >= 17
  {
    const instance = await open({ url })
    expect(await examineDatabase(url)).toMatchObject({ schema: 'holdfast', checks: 16, findings: [] })
    await instance.close()
  }
  const bad = {
    max_locks_per_transaction: 10,
    max_connections: 20,
    max_prepared_transactions: 2,
    autovacuum: 'off',
    ...(isNew ? { max_notify_queue_pages: 64 } : {}),
  }
  for (const [name, value] of Object.entries(bad)) await sql(url, `alter system set ${name} = ${value}`)
  await server.restart()
  const instance = await open({ url })
  const sessions = await Promise.all(Array.from({ length: 13 }, () => sqlSession(url)))
  await sessions[0]!.query('select pg_advisory_lock(n) from generate_series(1, 150) as n')
  await sessions[1]!.query("begin; insert into holdfast.fence_guard values (1, 1); prepare transaction 'left ''behind'")
  if (isNew) await fillNotifications(url)
  const standby = await startStandby(url)

  const seen = await found(
    url,
    [
      'lock-table-full',
      'connections-short',
      'autovacuum-off',
      'prepared-transaction',
      'history-not-replicated',
      ...(isNew ? (['notification-queue', 'notifications-lost'] as const) : []),
    ],
    { toleranceMs: 1 },
  )
  const of = (wanted: string) => seen.find(({ id }) => id === wanted)
  expect(of('lock-table-full')).toMatchObject({ facts: { budget: 220, max_locks_per_transaction: 10 } })
  expect(of('connections-short')).toMatchObject({ subject: 'server', facts: { most: 17 } })
  expect(of('prepared-transaction')).toMatchObject({ severity: 'wrong', subject: "left 'behind" })
  expect(of('history-not-replicated')!.text).toBe('No commit waits for a standby: a standby replicates asynchronously')
  expect(of('autovacuum-off')!.severity).toBe('risky')
  if (isNew) expect(of('notifications-lost')!.text).toContain('could not be sent')

  // These fixes take effect after a restart of the server.
  const restarted = ['lock-table-full', 'connections-short'] as const
  for (const finding of seen.filter(({ id }) => id === restarted[0] || id === restarted[1])) {
    for (const statement of finding.fix.sql) await sql(url, statement)
  }
  await fixes(url, ['autovacuum-off', 'prepared-transaction', 'history-not-replicated'], { toleranceMs: 1 })
  if (isNew) {
    await fixes(url, 'notification-queue')
    await isGone(url, 'notifications-lost')
  }

  // A standby that disconnects leaves its replication slot behind.
  await sql(url, 'alter system reset synchronous_standby_names')
  await sql(url, 'select pg_reload_conf()')
  standby.destroy()
  await until('the standby is gone', async () => (await sql(url, 'select from pg_stat_replication')).length === 0)
  const [slot] = await fixes(url, 'replication-slot')
  expect(slot).toMatchObject({ severity: 'risky', subject: 'a_standby' })

  await instance.close()
  await server.restart()
  expect(idsOf((await examineDatabase(url)).findings)).toEqual([])
})

/**
 * Fills the queue of notifications. A session listens and sleeps in a transaction, so PostgreSQL can delete no notification.
 */
async function fillNotifications(url: string): Promise<void> {
  const sleeper = await sqlSession(url, { application_name: 'sleeper' })
  await sleeper.query('listen something')
  await sleeper.query('begin; select 1')
  const full = sql(
    url,
    `do $$ begin for n in 1 .. 1000 loop perform pg_notify('other', n || repeat('x', 7000)); commit; end loop; end $$`,
  )
  await expect(full).rejects.toThrow('too many notifications')
}

/** Connects as a standby: it streams, confirms what it receives, and requests that the server keeps old rows. */
async function startStandby(url: string): Promise<{ destroy(): void }> {
  await sql(url, "select pg_create_physical_replication_slot('a_standby')")
  const [now] = await sql<{ lsn: string; xid: number }>(
    url,
    'select pg_current_wal_lsn()::text as lsn, pg_current_xact_id()::text::int as xid',
  )
  const client = new pg.Client({
    connectionString: url,
    application_name: 'a standby',
    replication: 'true',
  } as pg.ClientConfig)
  client.on('error', () => {})
  await client.connect()
  const { connection } = client as unknown as {
    connection: {
      stream: { destroy(): void }
      sendCopyFromChunk(chunk: Buffer): void
      on(event: string, then: () => void): void
    }
  }
  const confirm = () => {
    const status = Buffer.alloc(34, 0x7f)
    status.write('r')
    status[33] = 0
    connection.sendCopyFromChunk(status)
  }
  connection.on('copyData', confirm)
  connection.on('replicationStart', () => {
    const feedback = Buffer.alloc(25)
    feedback.write('h')
    feedback.writeUInt32BE(now!.xid, 9)
    connection.sendCopyFromChunk(feedback)
    confirm()
  })
  client.query(`START_REPLICATION SLOT a_standby PHYSICAL ${now!.lsn}`).catch(() => {})
  onTestFinished(() => connection.stream.destroy())
  await until('the standby streams', async () => {
    const [row] = await sql<{ state: string }>(url, 'select state from pg_stat_replication')
    return row?.state === 'streaming'
  })
  await until('the slot keeps old rows', async () => {
    const [row] = await sql<{ xmin: string | null }>(url, 'select xmin::text as xmin from pg_replication_slots')
    return row?.xmin != null
  })
  return connection.stream
}
