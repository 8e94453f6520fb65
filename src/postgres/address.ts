import { UsageError } from '../base/index.js'
import type { Connection } from './port.js'

const urlForm = /^postgres(ql)?:\/\//

/** Refuses what is no PostgreSQL URL, without repeating it: it may hold a password. */
export function checkUrl(given: string, what: string): string {
  if (urlForm.test(given) && URL.canParse(given) && isDecodable(given)) return given
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

/** `user@host:port/database`: where a connection leads, without its secrets. */
export function addressOf(connection: Connection): string {
  if (connection.connectionString) {
    const url = new URL(connection.connectionString)
    return `${decodeURIComponent(url.username)}@${url.hostname}:${url.port || 5432}${url.pathname}`
  }
  const user = connection.user ?? process.env.PGUSER ?? ''
  const host = connection.host ?? process.env.PGHOST ?? 'localhost'
  const database = connection.database ?? process.env.PGDATABASE ?? user
  return `${user}@${host}:${connection.port ?? process.env.PGPORT ?? 5432}/${database}`
}
