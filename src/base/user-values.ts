import { types } from 'node:util'

// A handler can throw or return anything: a revoked Proxy, an object whose getters throw, an error from a different realm. Only the
// functions in this file read such values. These functions never throw. They call each getter once and never call an object's `toString`,
// `valueOf` or `toJSON`, so their running time does not depend on the value.

const maxText = 4_000
const maxClassName = 80
/** Maximum length of a chain that may contain a cycle: an error's causes, or the errors inside an AggregateError. */
const maxDepth = 5

/** Prepares a string for a column of type text or jsonb. Shortens the string, and replaces zero bytes and invalid Unicode. */
export function clip(text: string): string {
  return text.slice(0, maxText).replaceAll('\0', '\uFFFD').toWellFormed()
}

/** Reads one of a value's members. Returns undefined if the member does not exist or reading it throws. */
export function memberOf(value: unknown, key: PropertyKey): unknown {
  try {
    return (value as Record<PropertyKey, unknown> | null | undefined)?.[key]
  } catch {
    return undefined
  }
}

/** Like `instanceof`, but returns false if `instanceof` throws. */
export function isInstance<T>(value: unknown, type: abstract new (...given: never[]) => T): value is T {
  try {
    return value instanceof type
  } catch {
    return false
  }
}

/** Whether the value is an error. Includes errors from a different realm (`node:vm`, a worker). */
export function isError(value: unknown): boolean {
  return types.isNativeError(value) || isInstance(value, Error)
}

/** Converts a value to text of at most 4,000 characters. An object is shown as its class name. */
export function textOf(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return clip(value)
    case 'object':
    case 'function':
      return value === null ? 'null' : describe(value)
    case 'bigint':
      return bigintText(value)
    default:
      return clip(String(value))
  }
}

/** Returns the message of any thrown value. */
export function messageOf(error: unknown): string {
  let at = error
  for (let depth = 0; depth < maxDepth; depth++) {
    const message = memberOf(at, 'message')
    if (typeof message === 'string' && message !== '') return clip(message)
    // If a host has several addresses, Node.js reports a failed connection as an AggregateError with an empty message.
    const first = memberOf(memberOf(at, 'errors'), 0)
    if (first === undefined) return message !== undefined && isError(at) ? textOf(message) : textOf(at)
    at = first
  }
  return textOf(error)
}

/** Formats any thrown value as one line: `TypeError: x is not a function`. */
export function errorLine(error: unknown): string {
  const name = memberOf(error, 'name')
  const message = messageOf(error)
  return isError(error) && typeof name === 'string' && name !== '' ? `${clip(name)}: ${message}` : message
}

/** Yields the error and its causes, starting with the outermost error. */
export function* causesOf(error: unknown): Iterable<unknown> {
  let at = error
  for (let depth = 0; depth < maxDepth && at !== undefined && at !== null; depth++) {
    yield at
    at = memberOf(at, 'cause')
  }
}

/** Describes a value for an error message, such as `"soon" (string)` or `an object (Date)`. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'undefined':
      return 'undefined'
    case 'string':
      return `${JSON.stringify(shorten(value))} (string)`
    case 'object':
      if (value === null) return 'null'
      if (isArray(value)) return arrayKind(value)
      return `an object (${classOf(value)})`
    case 'function':
      return 'a function'
    case 'bigint':
      return `${bigintText(value)} (bigint)`
    default:
      return `${shorten(String(value))} (${typeof value})`
  }
}

function arrayKind(value: unknown): string {
  if (memberOf(value, 'length') === 0) return 'an empty array'
  try {
    return listOf(value) ? 'an array' : 'an array with a hole'
  } catch {
    return 'an array'
  }
}

/**
 * Copies an array, so that a getter cannot return another value after a check. Returns undefined for other values and for an
 * array with a hole: `map` or a copy of `new Array(4e9)` would block the process for minutes.
 */
export function listOf(given: unknown): unknown[] | undefined {
  if (!Array.isArray(given)) return undefined
  const list: unknown[] = []
  for (let at = 0; at < given.length; at++) {
    if (!(at in given)) return undefined
    list.push(given[at])
  }
  return list
}

function classOf(value: object): string {
  const name = memberOf(memberOf(value, 'constructor'), 'name')
  return typeof name === 'string' ? name.slice(0, maxClassName) : 'Object'
}

/** Array.isArray throws for a revoked Proxy. */
function isArray(value: object): boolean {
  try {
    return Array.isArray(value)
  } catch {
    return false
  }
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 77)}…` : text
}

/** Formatting a bigint of millions of digits would take seconds. */
function bigintText(value: bigint): string {
  return BigInt.asIntN(256, value) === value ? String(value) : 'a bigint of more than 256 bits'
}
