import { createHash } from 'node:crypto'

/** By what the content of a request is known: another digest under the same key is another request. */
export function digestOf(...parts: (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('base64')
}
