const quoted = /^ *"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"(?: *;[^",]*| *)$/
const unquoted = /^[A-Za-z0-9._:~+/=-]+$/

/**
 * Parses a structured field (RFC 9651) that contains one string. Returns undefined for other values. Ignores
 * parameters. With `bare`, also accepts a word without quotation marks.
 */
export function readStringItem(field: string, bare: boolean): string | undefined {
  const [, inside] = quoted.exec(field) ?? []
  if (inside !== undefined) return inside.replace(/\\(.)/g, '$1')
  return bare && unquoted.test(field.trim()) ? field.trim() : undefined
}
