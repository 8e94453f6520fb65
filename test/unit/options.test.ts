import { describe, expect, test } from 'vitest'
import {
  abortSignal,
  describe as describeValue,
  duration,
  flag,
  objectWith,
  oneOf,
  readOptions,
  text,
  UsageError,
  wholeNumber,
} from '../../src/base/index.js'

const rules = {
  wait: duration(),
  ttl: duration(1_000, 86_400_000),
  mode: oneOf('exclusive', 'shared'),
  waitConnections: wholeNumber(1, 100),
  attempts: wholeNumber(1),
  migrate: flag,
  schema: text,
  signal: abortSignal,
  pool: objectWith<{ connect: unknown }>('a pool', 'connect'),
}

const read = (given: unknown) => readOptions('locks.acquire', given, rules)

function complaint(given: unknown): string {
  try {
    read(given)
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
  throw new Error('The options were accepted')
}

test('the error for an invalid duration shows valid durations in its hint', () => {
  expect(() => read({ wait: '5 secs' })).toThrow(
    expect.objectContaining({
      hint: "Use a number of milliseconds, or a string such as '250ms', '5s', '1m30s' or '2h'.",
    }),
  )
})

test('the error for an option name of another library suggests our name', () => {
  expect(() => readOptions('locks.acquire', { timeout: 5 }, rules, { timeout: 'wait' })).toThrow(
    'locks.acquire has no option "timeout": did you mean "wait"?',
  )
})

test('readOptions returns valid options and converts durations to milliseconds', () => {
  const { signal } = new AbortController()
  const pool = { connect() {} }
  const given = {
    wait: '5s',
    ttl: 1_000,
    mode: 'shared',
    waitConnections: 3,
    migrate: false,
    schema: 'x',
    signal,
    pool,
  }
  expect(read(given)).toEqual({ ...given, wait: 5_000 })
})

test('readOptions treats undefined options and an undefined option as absent', () => {
  expect(read(undefined)).toEqual({})
  expect(read({ wait: undefined })).toEqual({})
})

test.each<[unknown, string]>([
  [{ wait: 'soon' }, 'Expected wait to be a duration of at least 0ms, got "soon" (string)'],
  [{ wait: -1 }, 'Expected wait to be a duration of at least 0ms, got -1 (number)'],
  [{ wait: null }, 'Expected wait to be a duration of at least 0ms, got null'],
  [{ ttl: 30 }, 'Expected ttl to be a duration of at least 1s and at most 1d, got 30 (number)'],
  [{ ttl: '2d' }, 'Expected ttl to be a duration of at least 1s and at most 1d, got "2d" (string)'],
  [{ mode: 'read' }, 'Expected mode to be "exclusive" or "shared", got "read" (string)'],
  [{ waitConnections: 0 }, 'Expected waitConnections to be a whole number between 1 and 100, got 0 (number)'],
  [{ waitConnections: 1.5 }, 'Expected waitConnections to be a whole number between 1 and 100, got 1.5 (number)'],
  [{ waitConnections: '3' }, 'Expected waitConnections to be a whole number between 1 and 100, got "3" (string)'],
  [{ attempts: 0 }, 'Expected attempts to be a whole number of at least 1, got 0 (number)'],
  [{ migrate: 'no' }, 'Expected migrate to be true or false, got "no" (string)'],
  [{ schema: '' }, 'Expected schema to be a non-empty string, got "" (string)'],
  [{ signal: {} }, 'Expected signal to be an AbortSignal, got an object (Object)'],
  [{ pool: null }, 'Expected pool to be a pool, got null'],
  [{ pool: { connct() {} } }, 'Expected pool to be a pool, got an object (Object)'],
  [{ pool: 'connect' }, 'Expected pool to be a pool, got "connect" (string)'],
])('the error for %j names the expected and the given value', (given, message) => {
  expect(complaint(given)).toBe(message)
})

describe('unknown options', () => {
  test('the error for an unknown option suggests a similar option', () => {
    expect(complaint({ wiat: '5s' })).toBe('locks.acquire has no option "wiat": did you mean "wait"?')
  })

  test('the error for an unknown option lists all options if none is similar', () => {
    expect(complaint({ frobnicate: 1 })).toBe(
      'locks.acquire has no option "frobnicate": its options are wait, ttl, mode, waitConnections, attempts, migrate, schema, signal, pool',
    )
  })

  test.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    'the option %s, which every object inherits, is unknown',
    (key) => {
      const given = Object.fromEntries([[key, 1]])
      expect(complaint(given)).toContain(`locks.acquire has no option "${key}"`)
    },
  )
})

test.each<[unknown, string]>([
  ['5s', '"5s" (string)'],
  [5_000, '5000 (number)'],
  [null, 'null'],
  [() => {}, 'a function'],
  [[], 'an empty array'],
])('readOptions refuses %j as options', (given, shown) => {
  expect(complaint(given)).toBe(`Expected the options of locks.acquire to be an object, got ${shown}`)
})

test.each<[unknown, string]>([
  [undefined, 'undefined'],
  [1n, '1 (bigint)'],
  [true, 'true (boolean)'],
  [Symbol('s'), 'Symbol(s) (symbol)'],
  [new Date(0), 'an object (Date)'],
  [Object.create(null), 'an object (Object)'],
  ['x'.repeat(81), `"${'x'.repeat(77)}…" (string)`],
  ['x'.repeat(80), `"${'x'.repeat(80)}" (string)`],
])('describeValue describes value %#', (value, shown) => {
  expect(describeValue(value)).toBe(shown)
})
