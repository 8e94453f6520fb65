import { types } from 'node:util'
import { UsageError } from './errors.js'
import { describe, messageOf } from './user-values.js'

/**
 * Maximum number of parts that are visited. An object that contains the same part several times can expand to a very large number of parts.
 */
const maxParts = 1_000_000

/** Maximum nesting depth. PostgreSQL rejects JSON with a few thousand levels of nesting. */
const maxDepth = 500

/**
 * Serializes a value as JSON. Throws if JSON would silently change the value. `what` names the value in the error message, such as `an
 * input`.
 */
export function toJson(value: unknown, what: string): string | undefined {
  if (value === undefined) return undefined
  let unserializable: UnserializablePart | undefined
  try {
    unserializable = findUnserializable(value, { left: maxParts }, 0)
    if (unserializable === undefined) return JSON.stringify(value)
  } catch (error) {
    // A getter, a toJSON method or a proxy threw an error, or JSON.stringify found a cycle.
    throw unserializableError(what, `one that throws: ${messageOf(error)}`)
  }
  const { got, path } = unserializable
  const shown = path.length > 80 ? `${path.slice(0, 77)}…` : path
  throw unserializableError(what, path === '' ? got : `${got} at ${what.replace(/^an? /, '')}${shown}`)
}

function unserializableError(what: string, got: string): UsageError {
  return new UsageError(
    `Expected ${what} that JSON can represent, got ${got}`,
    'Pass plain data: strings, finite numbers, booleans, null, and arrays or objects of these. Convert other values first, for example with [...set], Object.fromEntries(map) or String(bigint).',
  )
}

/** A part of a value that JSON cannot represent. */
interface UnserializablePart {
  readonly got: string
  /** Path of the part, such as `.items[3].tags`. */
  readonly path: string
}

/**
 * Finds the first part that JSON cannot represent. A replacer function would make JSON.stringify 10 times slower. The path is built only
 * after such a part has been found, so a valid value incurs no extra cost.
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
    // Rejects an invalid date, because JSON.stringify would write null.
    if (Number.isNaN(value.getTime())) return { got: 'an invalid Date', path: '' }
    if (toJSON === Date.prototype.toJSON) return undefined
  }
  const json: unknown = toJSON.call(value, '')
  // JSON.stringify does not call toJSON on a value that another toJSON method returned.
  return typeof json === 'object' && json !== null
    ? findInside(json, parts, depth)
    : findUnserializable(json, parts, depth)
}

function findInside(value: object, parts: { left: number }, depth: number): UnserializablePart | undefined {
  if (depth > maxDepth) {
    // If the value contains a cycle, this call throws an error that names the cycle's members.
    JSON.stringify(value)
    return { got: `more than ${maxDepth} levels of nesting`, path: '' }
  }
  if (Array.isArray(value)) {
    if (value.length > parts.left) return { got: `more than ${maxParts} parts`, path: '' }
    for (let at = 0; at < value.length; at++) {
      const part: unknown = value[at]
      // JSON.stringify would write null for undefined and for a hole in an array.
      const found = part === undefined ? { got: 'undefined', path: '' } : findUnserializable(part, parts, depth + 1)
      if (found) return { got: found.got, path: `[${at}]${found.path}` }
    }
    return undefined
  }
  // Rejects binary data, because JSON.stringify would write each byte as a separate property.
  if (ArrayBuffer.isView(value)) return { got: describe(value), path: '' }
  const keys = Object.keys(value)
  if (!isPlain(value) && (keys.length === 0 || hasHiddenData(value))) return { got: describe(value), path: '' }
  for (const key of keys) {
    const found = findUnserializable((value as Record<string, unknown>)[key], parts, depth + 1)
    if (found) return { got: found.got, path: `${pathOf(key)}${found.path}` }
  }
  return undefined
}

/** Whether the value is a plain object. Includes plain objects from a different realm, such as a `node:vm` sandbox. */
export function isPlain(value: object): boolean {
  const prototype: object | null = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null
}

/** Prototypes of classes that keep data outside the properties that JSON.stringify writes. */
const prototypesWithHiddenData = new Set<object>(
  [Error, Map, Set, RegExp, Promise, Number, String, Boolean].map(({ prototype }) => prototype),
)

function hasHiddenData(value: object): boolean {
  // isNativeError also recognizes errors from a different realm.
  if (types.isNativeError(value)) return true
  for (let one: object | null = value; one !== null; one = Object.getPrototypeOf(one))
    if (prototypesWithHiddenData.has(one)) return true
  return false
}

function pathOf(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}
