// A real replica: refused as long as it is one, and after its promotion a server whose fences are larger than all that
// the old primary gave out, replicated or not.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EmbeddedServer, startEmbedded } from '../../src/embedded/index.js'
import { Holdfast, SessionLocksUnavailableError } from '../../src/holdfast.js'
import { isGone, look } from '../doctor/stage.js'
import { caught, sql, until } from '../setup/facts.js'
import { open } from '../setup/instances.js'

const settings = { fsync: 'off', hot_standby: 'on' }
let directory: string
let primary: EmbeddedServer
let standby: EmbeddedServer

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-standby-'))
  // The server may run as another user.
  chmodSync(directory, 0o755)
  const [one, other] = [join(directory, 'primary'), join(directory, 'standby')]
  const first = await startEmbedded({ dataDir: one, settings })
  await (await Holdfast.open({ url: first.url })).close()
  await sql(first.url, "create role replicator login replication password 'replicator-secret'")
  await first.stop('fast')
  // With owner and rights, which the server checks.
  execFileSync('cp', ['-a', one, other])
  writeFileSync(join(other, 'standby.signal'), '')
  primary = await startEmbedded({ dataDir: one, settings })
  const source = `host=127.0.0.1 port=${primary.port} user=replicator password=replicator-secret`
  standby = await startEmbedded({ dataDir: other, settings: { ...settings, primary_conninfo: source } })
})

afterAll(async () => {
  await Promise.all([standby?.stop('immediate'), primary?.stop('immediate')])
  rmSync(directory, { recursive: true, force: true })
})

test('is refused: its locks are seen by nobody else', async () => {
  expect(await sql(standby.url, 'select pg_is_in_recovery() as replica')).toEqual([{ replica: true }])
  const error = await caught(SessionLocksUnavailableError, Holdfast.open({ url: standby.url }))
  expect(error).toMatchObject({ because: 'read-replica', code: 'SESSION_LOCKS_UNAVAILABLE' })
  expect(error.hint).toContain('primary')
  expect((await look(standby.url)).findings[0]).toMatchObject({ id: 'read-replica', severity: 'wrong' })
  // What mends it is to connect to the primary.
  await isGone(primary.url, 'read-replica')
  const direct = Holdfast.open({ url: primary.url, directUrl: standby.url })
  expect(await caught(SessionLocksUnavailableError, direct)).toMatchObject({ because: 'read-replica' })
})

test('a pool that leads to the replica, while the anchor leads to the primary, is refused', async () => {
  const mixed = Holdfast.open({ url: standby.url, directUrl: primary.url })
  expect(await caught(SessionLocksUnavailableError, mixed)).toMatchObject({ because: 'elsewhere' })
})

test('after its promotion fences are larger than those it never heard of', async () => {
  const before = await open({ url: primary.url })
  const replicated = await before.locks.with('name', ({ fence }) => fence)
  const lsn = (await sql<{ lsn: string }>(primary.url, 'select pg_current_wal_flush_lsn()::text as lsn'))[0]!.lsn
  await until('the replica has it', async () => {
    const [row] = await sql<{ there: boolean }>(standby.url, 'select pg_last_wal_replay_lsn() >= $1::pg_lsn as there', [
      lsn,
    ])
    return row!.there
  })
  // The replica hears no more, and the primary goes on, far beyond what a crash alone could forget.
  await sql(primary.url, 'alter role replicator nologin')
  await sql(primary.url, 'select pg_terminate_backend(pid) from pg_stat_replication')
  await until('the stream has ended', async () => {
    return (await sql(primary.url, 'select from pg_stat_replication')).length === 0
  })
  await sql(primary.url, 'select holdfast.advance_fence() from generate_series(1, 50)')
  const last = await before.locks.with('name', ({ fence }) => fence)
  expect(last).toBeGreaterThan(replicated + 50_000_000)
  await primary.stop('immediate')

  await sql(standby.url, 'select pg_promote(wait => false)')
  await until('it is a primary', async () => {
    const [row] = await sql<{ replica: boolean }>(standby.url, 'select pg_is_in_recovery() as replica')
    return row && !row.replica
  })
  const after = await open({ url: standby.url })
  const fence = await after.locks.with('name', (lock) => lock.fence)
  expect(fence).toBeGreaterThan(last)
})
