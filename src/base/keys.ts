import { createHash } from 'node:crypto'
import { UsageError } from './errors.js'
import { checkNoMissingValue } from './missing-values.js'
import { describe } from './user-values.js'

/**
 * A name becomes a key, the 64-bit number that PostgreSQL locks. There are three ways, and all end in the one space
 * of `pg_advisory_lock(bigint)`; the space of two integers is left to Holdfast's own internals.
 *
 * - **hashed**: namespace, a zero byte, name; SHA-256; the first 8 bytes, signed, big-endian.
 * - **pair**: a class in the upper and an object in the lower 32 bits, as pg_locks shows them. No namespace.
 * - **numbered**: a key space's registered random base plus a small number.
 *
 * The SQL twins are `holdfast.lock_key(namespace, name)`, `holdfast.pair_key(class, object)` and
 * `holdfast.space_key(namespace, space, number)`.
 */
export interface Key {
  /** Decimal, as the driver sends and receives a bigint. */
  readonly key: string
  /** What people call it. Two different labels with one key are a collision, reported by the registry. */
  readonly label: string
  /** The namespace that the label belongs to; empty for pairs, which have none. */
  readonly namespace: string
}

/** How many numbers a key space holds; its base is a multiple of this, so that two spaces never overlap. */
export const numbersPerSpace = 2 ** 20

const maxNameLength = 500

/**
 * Refuses what cannot be a name, or was not meant as one: see `checkNameFits` and `checkParts`. Every name and key of a user
 * passes through here. `hint` says what to do about the name where more is known than here.
 */
export function checkName(given: unknown, what = 'name', hint?: string): string {
  const name = checkNameFits(given, what, hint)
  checkNoMissingValue(name, what, hint)
  return name
}

/** Refuses what cannot be stored as a name: not a string, empty, too long, with a zero byte or broken Unicode. */
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
      'Use a short, stable name such as "invoice:42"; hash long content into it. Characters are counted as by JavaScript: most emoji are two.',
  )
}

export function hashedKey(namespace: string, name: string): Key {
  const digest = createHash('sha256').update(namespace).update('\0').update(name).digest()
  return { key: digest.readBigInt64BE().toString(), label: name, namespace }
}

export function pairKey(classId: number, objectId: number): Key {
  for (const [what, given] of Object.entries({ class: classId, object: objectId })) {
    if (!Number.isInteger(given) || given < -(2 ** 31) || given >= 2 ** 31) {
      throw new UsageError(`Expected ${what} to be a whole number of 32 bits, got ${describe(given)}`)
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

/** A 32-bit class of the two-integer space, which Holdfast keeps for itself; other schemas get other classes. */
export function internalLockClass(schema: string, purpose: string): number {
  return createHash('sha256').update(`holdfast\0${schema}\0${purpose}`).digest().readInt32BE()
}
