import { createHash, hash, randomFillSync } from 'node:crypto'
import { UsageError } from './errors.js'
import { checkNoMissingValue } from './missing-values.js'
import { describe } from './user-values.js'

/**
 * A key is the 64-bit number that PostgreSQL locks for a name. Three functions create keys. All keys are in the space of
 * `pg_advisory_lock(bigint)`. Holdfast's internal locks use the two-integer space instead.
 *
 * - **hashed**: the first 8 bytes (signed, big-endian) of the SHA-256 hash of the namespace, a zero byte and the name.
 * - **pair**: a class in the upper 32 bits and an object in the lower 32 bits. A pair has no namespace.
 * - **numbered**: the registered random base of a key space, plus a small number.
 *
 * The corresponding SQL functions are `holdfast.lock_key(namespace, name)`, `holdfast.pair_key(class, object)` and
 * `holdfast.space_key(namespace, space, number)`.
 */
export interface Key {
  /** The number in decimal, as the driver sends and receives a bigint. */
  readonly key: string
  /** The name that people use. Two different labels with the same key are a collision. */
  readonly label: string
  /** The label's namespace. Empty for pairs. */
  readonly namespace: string
}

/** Number of keys in a key space. The base of each space is a multiple of this number, so two spaces never overlap. */
export const numbersPerSpace = 2 ** 20

const maxNameLength = 500

/**
 * Throws if a value cannot be a name (`checkNameFits`) or contains a missing value (`checkNoMissingValue`). All names and keys from users
 * are checked by this function. `hint` replaces the error's general hint.
 */
export function checkName(given: unknown, what = 'name', hint?: string): string {
  const name = checkNameFits(given, what, hint)
  checkNoMissingValue(name, what, hint)
  return name
}

/**
 * Throws if a value cannot be stored as a name: it is not a string, is empty or too long, contains a zero byte, or is not valid Unicode.
 */
export function checkNameFits(given: unknown, what: string, hint?: string): string {
  const fits =
    typeof given === 'string' &&
    given !== '' &&
    given.length <= maxNameLength &&
    !given.includes('\0') &&
    given.isWellFormed()
  if (fits) return given
  throw new UsageError(
    `Expected ${what} to be a string of 1 to ${maxNameLength} characters without zero bytes, got ${describe(given)}`,
    hint ??
      'Use a short, stable name such as "invoice:42". Hash long content. JavaScript counts most emoji as two characters.',
  )
}

export function hashedKey(namespace: string, name: string): Key {
  // Takes a third of the time of createHash().
  const digest = hash('sha256', `${namespace}\0${name}`, 'hex')
  return { key: BigInt.asIntN(64, BigInt(`0x${digest.slice(0, 16)}`)).toString(), label: name, namespace }
}

export function pairKey(classId: number, objectId: number): Key {
  for (const [what, given] of Object.entries({ class: classId, object: objectId })) {
    if (!Number.isInteger(given) || given < -(2 ** 31) || given >= 2 ** 31) {
      throw new UsageError(`Expected ${what} to be a 32-bit integer, got ${describe(given)}`)
    }
  }
  const key = (BigInt(classId) << 32n) | BigInt.asUintN(32, BigInt(objectId))
  return { key: key.toString(), label: `${classId}/${objectId}`, namespace: '' }
}

export function numberedKey(namespace: string, space: string, base: string, number: number): Key {
  if (!Number.isInteger(number) || number < 0 || number >= numbersPerSpace) {
    throw new UsageError(`Expected the number to be between 0 and ${numbersPerSpace - 1}, got ${describe(number)}`)
  }
  return { key: (BigInt(base) + BigInt(number)).toString(), label: `${space}#${number}`, namespace }
}

/** Random numbers that have not been used yet. Generating many at a time takes a fraction of the time. */
const randomNumbers = new BigInt64Array(128)
let randomNumbersLeft = 0

/** Returns a random 64-bit number in decimal. */
export function randomToken(): string {
  if (randomNumbersLeft === 0) {
    randomFillSync(randomNumbers)
    randomNumbersLeft = randomNumbers.length
  }
  return String(randomNumbers[--randomNumbersLeft])
}

/** Returns an internal lock's class in the two-integer space. The class depends on the schema. */
export function internalLockClass(schema: string, purpose: string): number {
  return createHash('sha256').update(`holdfast\0${schema}\0${purpose}`).digest().readInt32BE()
}
