// A password in an address is never said: not in errors with all that hangs on them, not in events, not by the command line, the
// doctor, the dashboard or the database's own list of sessions, however the opening fails or the connection ends.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { Holdfast } from '../../src/index.js'
import { run, runAlone, start } from '../cli/program.js'
import { board, raw, serve, watch } from '../dashboard/fixture.js'
import { sql, sqlPool, until } from '../setup/facts.js'
import { databaseUrl, open, roleUrl } from '../setup/instances.js'

const secret = 'hunter2-Pa55'
/** As it stands in an address. */
const percent = 'hunter2%2DPa55'

/** All that can be read off an error, or anything: its own fields, what it was caused by, hidden ones, its JSON. */
function everything(thing: unknown): string {
  const shown = inspect(thing, { depth: 12, showHidden: true, maxStringLength: null, maxArrayLength: null })
  const seen = new WeakSet<object>()
  const json = JSON.stringify(thing, (_, value: unknown) => {
    if (typeof value === 'bigint') return String(value)
    if (typeof value !== 'object' || value === null) return value
    if (seen.has(value)) return undefined
    seen.add(value)
    return value instanceof Error ? { ...value, message: value.message, stack: value.stack, cause: value.cause } : value
  })
  return `${shown}\n${json}\n${thing instanceof Error ? thing.stack : ''}`
}

function withoutSecret(what: string, said: unknown): void {
  const text = typeof said === 'string' ? said : everything(said)
  for (const form of [secret, percent]) {
    const at = text.indexOf(form)
    expect([what, at < 0 ? undefined : text.slice(Math.max(0, at - 200), at + 40)]).toEqual([what, undefined])
  }
}

/** A server that says something else than PostgreSQL would, and then nothing. */
async function stranger(says: string | Buffer): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.end(says)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as { port: number }).port
}

/** What a pooler says that refuses: an ErrorResponse. */
function refusal(message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`)
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

/** A role with the secret as its password. */
async function secretUrl(): Promise<{ url: string; admin: string }> {
  const admin = await databaseUrl()
  const { url, role } = await roleUrl(admin, 'superuser')
  await sql(admin, `alter role ${role} password '${secret}'`)
  const address = new URL(url)
  address.password = percent
  return { url: address.href.replace(/:[^:@]*@/, `:${percent}@`), admin }
}

test('an opening that fails, however', { timeout: 90_000 }, async () => {
  const { url: good, admin } = await secretUrl()
  const { host, username, pathname } = new URL(good)
  const at = (place: string) => `postgres://${username}:${percent}@${place}`
  const { url: poor, role } = await roleUrl(admin)
  await sql(admin, `alter role ${role} password '${secret}'`)
  const addresses: Record<string, string> = {
    'no such host': at('no-such-host.invalid/x'),
    'nobody listens': at('127.0.0.1:1/x'),
    'a wrong password': `postgres://${role}:${secret}x@${host}${pathname}`,
    'a role without rights': poor.replace('role-secret', secret),
    'no such database': at(`${host}/no_such_database`),
    'no such role': `postgres://nobody_here:${percent}@${host}${pathname}`,
    'no PostgreSQL': at(`127.0.0.1:${await stranger('HTTP/1.1 400 Bad Request\r\n\r\n')}/x`),
    'a pooler that refuses': at(`127.0.0.1:${await stranger(refusal('no such user'))}/x`),
    'one that hangs up': at(`127.0.0.1:${await stranger('')}/x`),
    'another scheme': `mysql://${username}:${percent}@${host}/x`,
    'no URL at all': `${username}:${secret}@${host}`,
    'a lone percent sign': `postgres://${username}:${secret}%@${host}/x`,
    'a port that is none': at('127.0.0.1:99999/x'),
    'a sign that should be escaped': `postgres://${username}:${secret}#x@${host}/x`,
    'a password among the parameters': `postgres://${username}@${host}/no_such?password=${secret}`,
    'a space in the host': `postgres://${username}:${secret}@ho st/x`,
    'a file of keys that is not there': `${at(`${host}${pathname}`)}?sslmode=require&sslrootcert=/nowhere/at.all`,
  }
  for (const [what, url] of Object.entries(addresses)) {
    for (const options of [{ url }, { url: good, directUrl: url }, { url, anchor: 'none' as const }]) {
      const opened = await Holdfast.open({ expiry: '4s', ...options }).catch((error: unknown) => error)
      if (opened instanceof Holdfast) {
        await opened.leases.tryAcquire('x').catch((error: unknown) => withoutSecret(what, error))
        await opened.close()
      } else {
        expect([what, opened instanceof Error]).toEqual([what, true])
        withoutSecret(what, opened)
      }
    }
    for (const words of [
      ['lock', 'ls'],
      ['doctor', '--json'],
      ['migrate', '--check', '--json'],
    ]) {
      const { status, stdout, stderr } = await run(words, { DATABASE_URL: url })
      expect([what, words, status]).not.toEqual([what, words, 0])
      withoutSecret(`${what}: holdfast ${words.join(' ')}`, `${stdout}${stderr}`)
    }
    const given = await run(['lock', 'ls', '--url', url])
    withoutSecret(`${what}: --url`, `${given.stdout}${given.stderr}`)
    const misplaced = await run(['lock', 'ls', url])
    withoutSecret(`${what}: among the words`, `${misplaced.stdout}${misplaced.stderr}`)
  }
})

test('an instance that lives, loses its sessions and comes back', { timeout: 60_000 }, async () => {
  const { url, admin } = await secretUrl()
  const said: unknown[] = []
  for (const options of [{ url }, { pool: sqlPool({ connectionString: url }) }]) {
    const holdfast = await open(options)
    for (const event of ['instance.lost', 'instance.reconnected', 'lock.lost', 'lease.lost'] as const) {
      holdfast.on(event, (facts: unknown) => said.push(facts))
    }
    const lock = await holdfast.locks.acquire('held')
    withoutSecret('the instance', String(JSON.stringify(await holdfast.health())))
    const sessions = await sql(
      admin,
      'select application_name, query, usename::text from pg_stat_activity where datname = current_database()',
    )
    expect(sessions.length).toBeGreaterThan(1)
    withoutSecret('the sessions', sessions)
    withoutSecret('the title of the process', `${process.title} ${process.argv.join(' ')}`)
    await sql(
      admin,
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    await until('it is told', () => lock.signal.aborted)
    said.push(lock.signal.reason)
    await until('it is back', async () => (await holdfast.health()).status === 'up')
    withoutSecret('the doctor', await holdfast.doctor())
    withoutSecret(
      'all that was written down',
      await sql(admin, "select query_to_xml('select * from holdfast.instance', true, false, '')::text as instances"),
    )
    await holdfast.close()
  }
  expect(said.length).toBeGreaterThan(3)
  for (const one of said) withoutSecret('an event', one)
})

test('the dashboard, and commands that go on', { timeout: 60_000 }, async () => {
  const { url, admin } = await secretUrl()
  const made = board({ url })
  const base = await serve(made)
  const { heard } = await watch(base, 'overview')
  await until('it is told', () => heard.length > 0)
  for (const path of [
    '',
    '/api/me',
    '/api/view/overview',
    '/api/view/audit',
    '/api/view/instances',
    '/api/sql/audit',
  ]) {
    withoutSecret(path, (await raw(base + path)).text)
  }
  withoutSecret('live', JSON.stringify(heard))
  withoutSecret('a dashboard', made)
  const lost = await serve(board({ url: url.replace(/\/[^/]*$/, '/no_such_database') }))
  withoutSecret('one that has no database', (await raw(`${lost}/api/view/overview`)).text)

  for (const words of [['top', '--once'], ['instance', 'ls'], ['doctor'], ['graph']]) {
    const { stdout, stderr } = await runAlone(words, { DATABASE_URL: url })
    withoutSecret(words.join(' '), `${stdout}${stderr}`)
  }
  const running = start(['dashboard', '--port', '0'], { DATABASE_URL: url })
  await running.says(/http:/)
  if (process.platform === 'linux') {
    for (const file of ['cmdline', 'comm']) withoutSecret(file, readFileSync(`/proc/${running.pid}/${file}`, 'latin1'))
  }
  await sql(
    admin,
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  running.process.kill('SIGTERM')
  const { stdout, stderr } = await running.ended
  withoutSecret('holdfast dashboard', `${stdout}${stderr}`)
})
