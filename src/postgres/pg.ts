import { createRequire } from 'node:module'
import type pg from 'pg'

/**
 * Loads node-postgres. Where `navigator` does not exist (Node.js 20), node-postgres creates a `Response` to recognize Cloudflare. Node.js
 * then loads its complete HTTP client, which takes longer than all the rest of node-postgres. So `navigator` exists meanwhile. An import
 * could not be surrounded by other code, because a bundler moves imports to the top.
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
