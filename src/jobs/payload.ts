import { toJson } from '../base/index.js'
import { PayloadTooLargeError } from './errors.js'

const maxBytes = 1_000_000

/** Serializes an input or a result as JSON. Returns undefined if there is no value. */
export function writePayload(value: unknown, what: 'an input' | 'a result'): string | undefined {
  const json = toJson(value, what)
  // Measures the exact size only if the text might be too large. A UTF-16 code unit takes at most three bytes in UTF-8.
  if (json === undefined || json.length * 3 <= maxBytes) return json
  const bytes = Buffer.byteLength(json)
  if (bytes > maxBytes) throw new PayloadTooLargeError(what, bytes, maxBytes)
  return json
}
