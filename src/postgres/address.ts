import { UsageError } from '../base/index.js'
import type { Connection } from './database.js'
import type { ConnectionTarget } from './errors.js'

const urlForm = /^postgres(ql)?:\/\//

/** What stands before the hosts, the hosts, and the rest. The last @ before the path ends the password. */
const urlParts = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s

/** A URL for each host: libpq's form of a URL may name several, `host1:5432,host2`, which no driver and no URL parser reads. */
export function urlsOf(url: string): string[] {
  const [, before, hosts, rest] = urlParts.exec(url) ?? []
  return hosts?.includes(',') ? hosts.split(',').map((host) => before + host + rest) : [url]
}

/** Refuses what is no PostgreSQL URL, without repeating it: it may hold a password. */
export function checkUrl(given: string, what: string): string {
  const urls = urlsOf(given)
  if (urls.every((url) => urlForm.test(url) && URL.canParse(url) && isDecodable(url) && hasHost(url, urls.length))) {
    if (urls.length > 1) checkSessionAttributes(new URL(urls[0]!).searchParams.get('target_session_attrs'), what)
    return given
  }
  throw new UsageError(
    `Expected ${what} to be a URL like postgres://user:password@host:5432/database, got a string of ${given.length} characters`,
    'It is not shown because it may hold a password. Percent-encode special characters in the password.',
  )
}

/** A lone percent sign, most often in a password, would fail later and in the driver, with an error that says nothing. */
function isDecodable(url: string): boolean {
  const { username, password, pathname } = new URL(url)
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

/** Of several hosts none is left to a default. */
function hasHost(url: string, ofHosts: number): boolean {
  return ofHosts === 1 || new URL(url).hostname !== ''
}

/** Of several hosts we look for the one that takes writes, and no other will do. */
function checkSessionAttributes(attributes: string | null, what: string): void {
  if (attributes === null || attributes === 'read-write' || attributes === 'primary') return
  throw new UsageError(
    `Expected target_session_attrs of ${what} to be read-write or primary, got ${JSON.stringify(attributes)}`,
    'Holdfast writes, so of several hosts it takes the primary. Leave it out: read-write is the default here.',
  )
}

/** What tells each of the hosts from the others; one entry where there is one host. */
export function configPerHost(connection: Connection): readonly Connection[] {
  const { connectionString, hosts } = connection
  if (connectionString) return urlsOf(connectionString).map((url) => ({ connectionString: url }))
  if (hosts) return hosts
  const names = (connection.host ?? process.env.PGHOST ?? '').split(',')
  if (names.length === 1) return [{}]
  // As libpq has it: one port for each, or one for all.
  const ports = String(connection.port ?? process.env.PGPORT ?? 5432).split(',')
  return names.map((host, at) => ({ host, port: Number(ports[at] ?? ports[0]) }))
}

/** `host:port`, of each host. */
export function hostList(connection: Connection): string {
  const fallback = { host: process.env.PGHOST ?? 'localhost', port: process.env.PGPORT ?? 5432 }
  const hosts = configPerHost(connection).map(({ connectionString, ...one }) => {
    if (!connectionString) return { ...fallback, ...connection, ...one }
    const { hostname, port } = new URL(connectionString)
    return { host: hostname, port: port || 5432 }
  })
  return hosts.map(({ host, port }) => `${host}:${port}`).join(',')
}

/** Where a connection leads; never with a password. */
export function targetOf(connection: Connection): ConnectionTarget {
  const hosts = hostList(connection)
  if (connection.connectionString) {
    const { username, pathname } = new URL(urlsOf(connection.connectionString)[0]!)
    const user = decodeURIComponent(username) || process.env.PGUSER
    return { user, hosts, database: decodeURIComponent(pathname.slice(1)) || process.env.PGDATABASE || user }
  }
  const user = connection.user ?? process.env.PGUSER
  return { user, hosts, database: connection.database ?? process.env.PGDATABASE ?? user }
}

/** `user@host:port/database`: where a connection leads, without its secrets. */
export function addressOf(connection: Connection): string {
  const hosts = hostList(connection)
  if (connection.connectionString) {
    const { username, pathname } = new URL(urlsOf(connection.connectionString)[0]!)
    return `${decodeURIComponent(username)}@${hosts}${pathname}`
  }
  const user = connection.user ?? process.env.PGUSER ?? ''
  return `${user}@${hosts}/${connection.database ?? process.env.PGDATABASE ?? user}`
}
