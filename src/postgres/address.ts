import { UsageError } from '../base/index.js'
import type { Connection } from './database.js'
import type { ConnectionTarget } from './errors.js'

const urlForm = /^postgres(ql)?:\/\//

/**
 * Captures three groups: the part before the hosts, the hosts, and the rest. The last @ before the path marks the end
 * of the password.
 */
const urlParts = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/s

/**
 * Splits a libpq URL with several hosts (`host1:5432,host2`) into one URL for each host. Drivers and URL parsers cannot read the combined
 * URL.
 */
export function urlsOf(url: string): string[] {
  const [, before, hosts, rest] = urlParts.exec(url) ?? []
  return hosts?.includes(',') ? hosts.split(',').map((host) => before + host + rest) : [url]
}

/** Throws unless the text is a PostgreSQL URL. The message does not repeat the text, which may contain a password. */
export function checkUrl(given: string, what: string): string {
  const urls = urlsOf(given)
  if (urls.every((url) => urlForm.test(url) && URL.canParse(url) && isDecodable(url) && hasHost(url, urls.length))) {
    if (urls.length > 1) checkSessionAttributes(new URL(urls[0]!).searchParams.get('target_session_attrs'), what)
    return given
  }
  throw new UsageError(
    `Expected ${what} to be a URL like postgres://user:password@host:5432/database, got a string of ${given.length} characters`,
    'The value is not shown because it may contain a password. Percent-encode special characters in the password.',
  )
}

/**
 * Returns whether the percent-encoding is valid. A stray percent sign, usually in a password, would otherwise cause an unhelpful driver
 * error later.
 */
function isDecodable(url: string): boolean {
  const { username, password, pathname } = new URL(url)
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

/** Returns whether the URL contains a host name. Only a URL with a single host may omit the name. */
function hasHost(url: string, ofHosts: number): boolean {
  return ofHosts === 1 || new URL(url).hostname !== ''
}

/** Throws unless the value selects the primary, because Holdfast needs a host that accepts writes. */
function checkSessionAttributes(attributes: string | null, what: string): void {
  if (attributes === null || attributes === 'read-write' || attributes === 'primary') return
  throw new UsageError(
    `Expected target_session_attrs in ${what} to be read-write or primary, got ${JSON.stringify(attributes)}`,
    'Holdfast always connects to the primary, because it needs to write. Remove the parameter: the default is read-write.',
  )
}

/** Returns the settings that differ between the hosts, one entry for each host. */
export function configPerHost(connection: Connection): readonly Connection[] {
  const { connectionString, hosts } = connection
  if (connectionString) return urlsOf(connectionString).map((url) => ({ connectionString: url }))
  if (hosts) return hosts
  const names = (connection.host ?? process.env.PGHOST ?? '').split(',')
  if (names.length === 1) return [{}]
  // Like libpq, Holdfast accepts one port for each host, or one port for all hosts.
  const ports = String(connection.port ?? process.env.PGPORT ?? 5432).split(',')
  return names.map((host, at) => ({ host, port: Number(ports[at] ?? ports[0]) }))
}

/** Formats the hosts as `host:port`, separated by commas. */
export function hostList(connection: Connection): string {
  const fallback = { host: process.env.PGHOST ?? 'localhost', port: process.env.PGPORT ?? 5432 }
  const hosts = configPerHost(connection).map(({ connectionString, ...one }) => {
    if (!connectionString) return { ...fallback, ...connection, ...one }
    const { hostname, port } = new URL(connectionString)
    return { host: hostname, port: port || 5432 }
  })
  return hosts.map(({ host, port }) => `${host}:${port}`).join(',')
}

/** Returns a connection's target, without the password. */
export function targetOf(connection: Connection): ConnectionTarget {
  const url = connection.connectionString ? new URL(urlsOf(connection.connectionString)[0]!) : undefined
  const user = (url ? decodeURIComponent(url.username) : connection.user) || process.env.PGUSER
  const database = url ? decodeURIComponent(url.pathname.slice(1)) : connection.database
  return { user, hosts: hostList(connection), database: database || process.env.PGDATABASE || user }
}

/** Formats a connection's target as `user@host:port/database`. */
export function addressOf(connection: Connection): string {
  const { user = '', hosts, database = '' } = targetOf(connection)
  return `${user}@${hosts}/${database}`
}
