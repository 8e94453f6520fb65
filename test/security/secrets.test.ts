// A password in an address is never shown: not in errors and their causes, events, the output of the command line, the doctor, the dashboard
// or pg_stat_activity. This applies to every way in which opening fails or a connection ends.
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
/** The secret as it is encoded in an address. */
const percent = 'hunter2%2DPa55'

/** Returns everything that a program can print of a value: its fields, hidden fields, causes, stack and JSON. */
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

function withoutSecret(what: string, value: unknown): void {
  const text = typeof value === 'string' ? value : everything(value)
  for (const form of [secret, percent]) {
    const at = text.indexOf(form)
    expect([what, at < 0 ? undefined : text.slice(Math.max(0, at - 200), at + 40)]).toEqual([what, undefined])
  }
}

/** Starts a server that sends `bytes`, which are not the protocol of PostgreSQL, and closes the connection. Returns its port. */
async function startOtherServer(bytes: string | Buffer): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.end(bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as { port: number }).port
}

/** Builds the ErrorResponse of a pooler that refuses a connection. */
function refusal(message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`)
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

/** Creates a role with the secret as its password. */
async function secretUrl(): Promise<{ url: string; admin: string }> {
  const admin = await databaseUrl()
  const { url, role } = await roleUrl(admin, 'superuser')
  await sql(admin, `alter role ${role} password '${secret}'`)
  const address = new URL(url)
  address.password = percent
  return { url: address.href.replace(/:[^:@]*@/, `:${percent}@`), admin }
}

test('errors of opening and of commands do not contain the password, for every cause', {
  timeout: 90_000,
}, async () => {
  const { url: good, admin } = await secretUrl()
  const { host, username, pathname } = new URL(good)
  const at = (place: string) => `postgres://${username}:${percent}@${place}`
  const { url: unprivileged, role } = await roleUrl(admin)
  await sql(admin, `alter role ${role} password '${secret}'`)
  const addresses: Record<string, string> = {
    'no such host': at('no-such-host.invalid/x'),
    'no server at the port': at('127.0.0.1:1/x'),
    'a wrong password': `postgres://${role}:${secret}x@${host}${pathname}`,
    'a role without rights': unprivileged.replace('role-secret', secret),
    'no such database': at(`${host}/no_such_database`),
    'no such role': `postgres://nobody_here:${percent}@${host}${pathname}`,
    'no PostgreSQL': at(`127.0.0.1:${await startOtherServer('HTTP/1.1 400 Bad Request\r\n\r\n')}/x`),
    'a pooler that refuses': at(`127.0.0.1:${await startOtherServer(refusal('no such user'))}/x`),
    'a server that disconnects': at(`127.0.0.1:${await startOtherServer('')}/x`),
    'another scheme': `mysql://${username}:${percent}@${host}/x`,
    'no URL at all': `${username}:${secret}@${host}`,
    'a lone percent sign': `postgres://${username}:${secret}%@${host}/x`,
    'an invalid port': at('127.0.0.1:99999/x'),
    'a character that should be escaped': `postgres://${username}:${secret}#x@${host}/x`,
    'a password among the parameters': `postgres://${username}@${host}/no_such?password=${secret}`,
    'a space in the host': `postgres://${username}:${secret}@ho st/x`,
    'a certificate file that does not exist': `${at(`${host}${pathname}`)}?sslmode=require&sslrootcert=/nowhere/at.all`,
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
    withoutSecret(`${what}: as an argument`, `${misplaced.stdout}${misplaced.stderr}`)
  }
})

test('events, errors and sessions of an instance that reconnects do not contain the password', {
  timeout: 60_000,
}, async () => {
  const { url, admin } = await secretUrl()
  const values: unknown[] = []
  for (const options of [{ url }, { pool: sqlPool({ connectionString: url }) }]) {
    const holdfast = await open(options)
    for (const event of ['instance.lost', 'instance.reconnected', 'lock.lost', 'lease.lost'] as const) {
      holdfast.on(event, (payload: unknown) => values.push(payload))
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
    await until('the signal of the lock is aborted', () => lock.signal.aborted)
    values.push(lock.signal.reason)
    await until('the instance is up', async () => (await holdfast.health()).status === 'up')
    withoutSecret('the doctor', await holdfast.doctor())
    withoutSecret(
      'the table instance',
      await sql(admin, "select query_to_xml('select * from holdfast.instance', true, false, '')::text as instances"),
    )
    await holdfast.close()
  }
  expect(values.length).toBeGreaterThan(3)
  for (const value of values) withoutSecret('an event', value)
})

test('the dashboard and its process do not show the password', { timeout: 60_000 }, async () => {
  const { url, admin } = await secretUrl()
  const dashboard = board({ url })
  const base = await serve(dashboard)
  const { heard } = await watch(base, 'overview')
  await until('the dashboard sends a message', () => heard.length > 0)
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
  withoutSecret('a dashboard', dashboard)
  const withoutDatabase = await serve(board({ url: url.replace(/\/[^/]*$/, '/no_such_database') }))
  withoutSecret('a dashboard without a database', (await raw(`${withoutDatabase}/api/view/overview`)).text)

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
