// Fails over from a primary to its standby. An instance holds a lock on the primary. The primary stops, and the
// standby, which has no record of this lock, is promoted. A second instance acquires the lock on the new primary, with
// a larger fence, and writes. The first instance's late write is rejected.
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Holdfast } from 'holdfast'
import { type EmbeddedServer, startEmbedded } from 'holdfast/embedded'
import pg from 'pg'

const directory = mkdtempSync(join(tmpdir(), 'holdfast-failover-'))
chmodSync(directory, 0o755) // If this program runs as root, the servers run as another user, who needs access.
const servers: EmbeddedServer[] = []
try {
  const { primary, standby } = await startBoth()
  const first = await Holdfast.open({ url: primary.url })
  const early = await first.locks.acquire('report')
  const code = new Promise((resolve) => early.signal.addEventListener('abort', () => resolve(early.signal.reason.code)))

  await primary.stop('immediate')
  console.log(`the primary stopped, and the first holder was notified: ${await code}`)
  await query(standby.url, 'select pg_promote()')

  const second = await Holdfast.open({ url: standby.url })
  const later = await second.locks.acquire('report')
  console.log(`the later fence, from the new primary, is larger: ${later.fence > early.fence}`)
  await write(standby.url, later.keys[0]!, later.fence, 'second')
  await write(standby.url, early.keys[0]!, early.fence, 'first')
  await Promise.all([first.close(), second.close()])
} finally {
  await Promise.all(servers.map((server) => server.stop('immediate')))
  rmSync(directory, { recursive: true, force: true })
}

// Writes as a program that ignores its lock's signal, and only passes the fence to the database.
async function write(url: string, key: string, fence: number, who: string) {
  const answer = await query(
    url,
    `begin; select holdfast.guard_key(${key}, ${fence}); insert into report values ('${who}'); commit`,
  ).then(
    () => 'written',
    (error) => `rejected (${error.code})`,
  )
  console.log(`${who}: ${answer}`)
}

async function query(url: string, text: string) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return await client.query(text)
  } finally {
    await client.end()
  }
}

/** Starts a primary, copies its data directory as pg_basebackup does, and starts a standby from the copy. */
async function startBoth() {
  const settings = { fsync: 'off' }
  const primary = await startEmbedded({ settings })
  servers.push(primary)
  await (await Holdfast.open({ url: primary.url })).close()
  const client = new pg.Client(primary.url)
  await client.connect()
  await client.query("create table report (written_by text); create role replica login replication password 'secret'")

  const copy = join(directory, 'standby')
  await client.query("select pg_backup_start('copy', true)")
  execFileSync('cp', ['-a', primary.dataDir, copy])
  const { rows } = await client.query('select labelfile from pg_backup_stop(false)')
  await client.end()
  rmSync(join(copy, 'postmaster.pid'))
  const { uid, gid } = statSync(copy)
  const files = { backup_label: rows[0].labelfile, 'standby.signal': '' }
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(copy, name), text)
    chownSync(join(copy, name), uid, gid)
  }

  const from = `host=127.0.0.1 port=${primary.port} user=replica password=secret`
  const standby = await startEmbedded({ dataDir: copy, settings: { ...settings, primary_conninfo: from } })
  servers.push(standby)
  return { primary, standby }
}

// prints:
// the primary stopped, and the first holder was notified: LOCK_LOST
// the later fence, from the new primary, is larger: true
// second: written
// first: rejected (HF001)
