import { createHash } from 'node:crypto'

/** Returns the digest that identifies the content of a request. */
export function digestOf(...parts: (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('base64')
}
