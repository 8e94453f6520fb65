import { types } from 'node:util'
import { UsageError } from './errors.js'
import { describe, messageOf } from './user-values.js'

/** Objects that share parts can have more of them than can be visited. */
const maxParts = 1_000_000

/** A structure that is nested deeper is refused. PostgreSQL refuses JSON at some thousands. */
const maxDepth = 500

/**
 * The value as JSON, or undefined for nothing. A value that JSON would change silently is refused. `what` names the value in
 * the message, such as `an input`.
 */
export function toJson(value: unknown, what: string): string | undefined {
  if (value === undefined) return undefined
  let unserializable: UnserializablePart | undefined
  try {
    unserializable = findUnserializable(value, { left: maxParts }, 0)
    if (unserializable === undefined) return JSON.stringify(value)
  } catch (error) {
    // Of a getter, a toJSON or a proxy; or JSON.stringify has found a circle.
    throw unserializableError(what, `one that throws: ${messageOf(error)}`)
  }
  const { got, path } = unserializable
  const shown = path.length > 80 ? `${path.slice(0, 77)}…` : path
  throw unserializableError(what, path === '' ? got : `${got} at ${what.replace(/^an? /, '')}${shown}`)
}

function unserializableError(what: string, got: string): UsageError {
  return new UsageError(
    `Expected ${what} that JSON can carry, got ${got}`,
    'Give plain data: strings, finite numbers, booleans, null, arrays and objects of these. Convert the rest first, such as by [...set], Object.fromEntries(map) or String(bigint).',
  )
}

/** A part that JSON cannot carry, and where it is, such as `.items[3].tags`. */
interface UnserializablePart {
  readonly got: string
  readonly path: string
}

/**
 * Walks by itself: a replacer makes JSON.stringify ten times as slow. The path is put together on the way back, so that a value
 * which is carried pays nothing for it.
 */
function findUnserializable(value: unknown, parts: { left: number }, depth: number): UnserializablePart | undefined {
  if (--parts.left < 0) return { got: `more than ${maxParts} parts`, path: '' }
  switch (typeof value) {
    case 'bigint':
    case 'function':
    case 'symbol':
      return { got: describe(value), path: '' }
    case 'number':
      return Number.isFinite(value) ? undefined : { got: describe(value), path: '' }
    case 'object':
      return value === null ? undefined : findInObject(value, parts, depth)
    default:
      return undefined
  }
}

function findInObject(value: object, parts: { left: number }, depth: number): UnserializablePart | undefined {
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON !== 'function') return findInside(value, parts, depth)
  if (types.isDate(value)) {
    // JSON would write null for it.
    if (Number.isNaN(value.getTime())) return { got: 'an invalid Date', path: '' }
    if (toJSON === Date.prototype.toJSON) return undefined
  }
  const json: unknown = toJSON.call(value, '')
  // JSON.stringify does not ask it again for its own toJSON.
  return typeof json === 'object' && json !== null
    ? findInside(json, parts, depth)
    : findUnserializable(json, parts, depth)
}

function findInside(value: object, parts: { left: number }, depth: number): UnserializablePart | undefined {
  if (depth > maxDepth) {
    // Throws for a circle, and names its members.
    JSON.stringify(value)
    return { got: `more than ${maxDepth} levels of nesting`, path: '' }
  }
  if (Array.isArray(value)) {
    if (value.length > parts.left) return { got: `more than ${maxParts} parts`, path: '' }
    for (let at = 0; at < value.length; at++) {
      const part: unknown = value[at]
      // JSON would write null for it, and for a hole.
      const found = part === undefined ? { got: 'undefined', path: '' } : findUnserializable(part, parts, depth + 1)
      if (found) return { got: found.got, path: `[${at}]${found.path}` }
    }
    return undefined
  }
  // Each byte would be a member of its own.
  if (ArrayBuffer.isView(value)) return { got: describe(value), path: '' }
  const keys = Object.keys(value)
  if (!isPlain(value) && (keys.length === 0 || hasHiddenData(value))) return { got: describe(value), path: '' }
  for (const key of keys) {
    const found = findUnserializable((value as Record<string, unknown>)[key], parts, depth + 1)
    if (found) return { got: found.got, path: `${pathOf(key)}${found.path}` }
  }
  return undefined
}

/** An object of no class, also one of another realm, such as a sandbox of `node:vm`. */
function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null
}

/** Of classes whose data is not in the fields that JSON writes. Their objects, and those of subclasses, may have fields, too. */
const prototypesWithHiddenData = new Set<object>(
  [Error, Map, Set, RegExp, Promise, Number, String, Boolean].map(({ prototype }) => prototype),
)

function hasHiddenData(value: object): boolean {
  // Errors of another realm, too.
  if (types.isNativeError(value)) return true
  for (let one: object | null = value; one !== null; one = Object.getPrototypeOf(one))
    if (prototypesWithHiddenData.has(one)) return true
  return false
}

function pathOf(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}
