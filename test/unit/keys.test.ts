import { describe, expect, test } from 'vitest'
import { checkName, hashedKey, internalClass, numberedKey, pairKey, UsageError } from '../../src/base/index.js'

// Computed by coreutils: printf 'billing\0nightly-report' | sha256sum, the first 16 digits, as a signed number.
const hashed: [string, string, string][] = [
  ['billing', 'nightly-report', '8192123173007030350'],
  ['default', 'invoice:42', '-4848482372126502272'],
  ['', 'abc', '6962404730672797061'],
  ['fuhrpark', 'Straße 東京 🚀', '2775378935658527577'],
]

describe('hashed keys', () => {
  test.each(hashed)('%j and %j have the key that other tools compute', (namespace, name, key) => {
    expect(hashedKey(namespace, name)).toEqual({ key, label: name, namespace })
  })

  test('the zero byte keeps namespace and name apart', () => {
    expect(hashedKey('a', 'bc').key).not.toBe(hashedKey('ab', 'c').key)
  })
})

describe('pairs', () => {
  test.each([
    [0, 0, '0'],
    [0, 1, '1'],
    [1, 0, '4294967296'],
    [0, -1, '4294967295'],
    [-1, -1, '-1'],
    [-1, 0, '-4294967296'],
    [2147483647, -1, '9223372036854775807'],
    [2147483647, 2147483647, '9223372034707292159'],
    [-2147483648, 0, '-9223372036854775808'],
    [-2147483648, -2147483648, '-9223372034707292160'],
  ])('class %d, object %d is key %s', (classId, objectId, key) => {
    expect(pairKey(classId, objectId)).toEqual({ key, label: `${classId}/${objectId}`, namespace: '' })
  })

  test.each([
    [2 ** 31, 0, 'class'],
    [0, -(2 ** 31) - 1, 'object'],
    [1.5, 0, 'class'],
    [0, Number.NaN, 'object'],
    ['1' as unknown as number, 0, 'class'],
  ])('refuses (%s, %s)', (classId, objectId, wrong) => {
    expect(() => pairKey(classId, objectId)).toThrow(`Expected ${wrong} to be a whole number of 32 bits, got `)
  })
})

describe('numbered keys', () => {
  test('count from the base of their space, below zero too', () => {
    expect(numberedKey('app', 'steps', '-1048576', 0).key).toBe('-1048576')
    expect(numberedKey('app', 'steps', '-1048576', 1048575).key).toBe('-1')
    expect(numberedKey('app', 'steps', '1048576', 7)).toEqual({ key: '1048583', label: 'steps#7', namespace: 'app' })
  })

  test.each([-1, 1048576, 0.5, Number.NaN])('refuse the number %s', (number) => {
    expect(() => numberedKey('app', 'steps', '0', number)).toThrow(
      `Expected the number to be between 0 and 1048575, got ${number} (number)`,
    )
  })
})

describe('names', () => {
  test.each(['a', ' ', 'x'.repeat(500), '🚀', 'with "quotes" and \'those\'', '\u0001'])('%j is one', (name) => {
    expect(checkName(name)).toBe(name)
  })

  test.each<[unknown, string]>([
    ['', '"" (string)'],
    ['x'.repeat(501), `"${'x'.repeat(77)}…" (string)`],
    ['zero\0byte', '"zero\\u0000byte" (string)'],
    ['half a pair \ud83d', '"half a pair \\ud83d" (string)'],
    [undefined, 'undefined'],
    [null, 'null'],
    [42, '42 (number)'],
    [['a'], 'an array'],
  ])('%j is none', (given, shown) => {
    const message = `Expected name to be a string of 1 to 500 characters without zero bytes, got ${shown}`
    expect(() => checkName(given)).toThrow(UsageError)
    expect(() => checkName(given)).toThrow(message)
  })
})

test('internal classes are 32-bit numbers, another for each schema and purpose', () => {
  const classes = ['holdfast', 'other'].flatMap((schema) =>
    ['session', 'truth', 'migration'].map((purpose) => internalClass(schema, purpose)),
  )
  expect(new Set(classes).size).toBe(6)
  for (const number of classes) expect(number).toBe(number | 0)
})
