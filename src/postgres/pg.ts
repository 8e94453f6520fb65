import { createRequire } from 'node:module'
import type pg from 'pg'

/**
 * Loads node-postgres. Where `navigator` does not exist (Node.js 20), node-postgres creates a `Response` to recognize
 * Cloudflare. Node.js then loads its complete HTTP client, which takes longer than loading the rest of node-postgres.
 * Therefore, `navigator` is defined while node-postgres is loading. This needs `require`, because a bundler moves
 * imports to the top of the file.
 */
function loadDriver(): typeof pg {
  const require = createRequire(import.meta.url)
  if ('navigator' in globalThis) return require('pg')
  Object.defineProperty(globalThis, 'navigator', { value: { userAgent: 'Node.js' }, configurable: true })
  try {
    return require('pg')
  } finally {
    Reflect.deleteProperty(globalThis, 'navigator')
  }
}

export const driver = loadDriver()
