const quoted = /^ *"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"(?: *;[^",]*| *)$/
const unquoted = /^[A-Za-z0-9._:~+/=-]+$/

/**
 * The string that is the value of a structured field (RFC 9651); undefined when it is none, or several. Parameters are
 * passed over. With `bare`, a word without quotation marks is taken for a string.
 */
export function readStringItem(field: string, bare: boolean): string | undefined {
  const [, inside] = quoted.exec(field) ?? []
  if (inside !== undefined) return inside.replace(/\\(.)/g, '$1')
  return bare && unquoted.test(field.trim()) ? field.trim() : undefined
}
