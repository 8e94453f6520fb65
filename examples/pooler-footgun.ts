// Shows that session locks fail behind a pooler in transaction mode: two programs hold the same lock at the same time,
// and the lock remains after both programs have disconnected. Holdfast detects this in `open`, and its error contains
// the remedy. With a direct URL for its one session, Holdfast works. The example needs PgBouncer (apt install
// pgbouncer, brew install pgbouncer). Without PgBouncer, it prints a message and exits.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Holdfast } from 'holdfast'
import pg from 'pg'
import { withDatabase } from './database.ts'

const pgbouncer = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/opt/homebrew/bin/pgbouncer'].find(existsSync)
if (!pgbouncer) console.log('PgBouncer is not installed: apt install pgbouncer, or brew install pgbouncer.')
else await withDatabase((url) => withPooler(pgbouncer, url, (pooled) => show(url, pooled)))

async function show(url: string, pooled: string) {
  const [one, other] = [new pg.Client(pooled), new pg.Client(pooled)]
  await Promise.all([one.connect(), other.connect()])
  const lock = async (client: pg.Client) =>
    (await client.query('select pg_try_advisory_lock(42) as is_mine')).rows[0].is_mine
  console.log(
    `plain SQL: the first client got the lock: ${await lock(one)}, the second client also got it: ${await lock(other)}`,
  )
  await Promise.all([one.end(), other.end()])
  const direct = new pg.Client(url)
  await direct.connect()
  console.log(`after both clients disconnected, a third client got the lock: ${await lock(direct)}`)
  await direct.end()

  const refused = await Holdfast.open({ url: pooled }).catch((error) => error)
  console.log(`Holdfast: ${refused.code} (${refused.reason})`)

  const first = await Holdfast.open({ url: pooled, directUrl: url })
  const second = await Holdfast.open({ url: pooled, directUrl: url })
  const held = await first.locks.tryAcquire('report')
  console.log(
    `with directUrl: the first instance got the lock: ${held !== null}, the second: ${(await second.locks.tryAcquire('report')) !== null}`,
  )
  await Promise.all([first.close(), second.close()])

  const without = await Holdfast.open({ url: pooled, anchor: 'none' })
  const lease = await without.leases.tryAcquire('report')
  console.log(`without a session, Holdfast got a lease: ${lease !== null}`)
  await without.close()
}

/** Starts PgBouncer with one server connection, which all clients share. */
async function withPooler(program: string, url: string, work: (pooled: string) => Promise<void>) {
  const { hostname, port, username, password, pathname } = new URL(url)
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-example-'))
  const file = join(directory, 'pgbouncer.ini')
  const listens = 20_000 + Math.floor(Math.random() * 10_000)
  writeFileSync(
    file,
    `[databases]
* = host=${hostname} port=${port || 5432} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listens}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
`,
  )
  // PgBouncer refuses to run as root, as PostgreSQL does.
  const isRoot = process.getuid?.() === 0
  const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' })))
  if (isRoot) execFileSync('chown', ['-R', `${uid}:${gid}`, directory])
  const pooler = spawn(program, [file], { stdio: 'ignore', ...(isRoot && { uid: uid!, gid: gid! }) })
  const pooled = `postgres://${username}:${password}@127.0.0.1:${listens}${pathname}`
  try {
    await answers(pooled)
    await work(pooled)
  } finally {
    pooler.kill()
    rmSync(directory, { recursive: true, force: true })
  }
}

async function answers(url: string) {
  for (let tries = 0; tries < 200; tries++) {
    const client = new pg.Client(url)
    client.on('error', () => {})
    const isThere = await client.connect().then(
      () => true,
      () => false,
    )
    await client.end()
    if (isThere) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error('PgBouncer does not accept connections')
}

// prints:
// plain SQL: the first client got the lock: true, the second client also got it: true
// after both clients disconnected, a third client got the lock: false
// Holdfast: SESSION_LOCKS_UNAVAILABLE (transaction-pooler)
// with directUrl: the first instance got the lock: true, the second: false
// without a session, Holdfast got a lease: true
