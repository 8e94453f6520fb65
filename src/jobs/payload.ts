import { toJson } from '../base/index.js'
import { PayloadTooLargeError } from './errors.js'

const maxBytes = 1_000_000

/** An input or a result as it is written down; undefined for nothing. */
export function writePayload(value: unknown, what: 'an input' | 'a result'): string | undefined {
  const json = toJson(value, what)
  // No character takes more than three bytes for each of its units.
  if (json === undefined || json.length * 3 <= maxBytes) return json
  const bytes = Buffer.byteLength(json)
  if (bytes > maxBytes) throw new PayloadTooLargeError(what, bytes, maxBytes)
  return json
}
