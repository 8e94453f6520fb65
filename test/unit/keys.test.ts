import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { checkName, hashedKey, internalLockClass, numberedKey, pairKey, UsageError } from '../../src/base/index.js'

// Computed with coreutils: printf 'billing\0nightly-report' | sha256sum, the first 16 digits as a signed number.
const hashed: [string, string, string][] = [
  ['billing', 'nightly-report', '8192123173007030350'],
  ['default', 'invoice:42', '-4848482372126502272'],
  ['', 'abc', '6962404730672797061'],
  ['fuhrpark', 'Straße 東京 🚀', '2775378935658527577'],
]

describe('hashed keys', () => {
  test.each(hashed)('hashedKey(%j, %j) returns the key that other tools compute', (namespace, name, key) => {
    expect(hashedKey(namespace, name)).toEqual({ key, label: name, namespace })
  })

  test('hashedKey separates namespace and name with a zero byte', () => {
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
  ])('pairKey(%d, %d) returns the key %s', (classId, objectId, key) => {
    expect(pairKey(classId, objectId)).toEqual({ key, label: `${classId}/${objectId}`, namespace: '' })
  })

  test.each([
    [2 ** 31, 0, 'class'],
    [0, -(2 ** 31) - 1, 'object'],
    [1.5, 0, 'class'],
    [0, Number.NaN, 'object'],
    ['1' as unknown as number, 0, 'class'],
  ])('pairKey refuses (%s, %s)', (classId, objectId, wrong) => {
    expect(() => pairKey(classId, objectId)).toThrow(`Expected ${wrong} to be a 32-bit integer, got `)
  })
})

describe('numbered keys', () => {
  test('numberedKey adds the number to the base of the space, also below zero', () => {
    expect(numberedKey('app', 'steps', '-1048576', 0).key).toBe('-1048576')
    expect(numberedKey('app', 'steps', '-1048576', 1048575).key).toBe('-1')
    expect(numberedKey('app', 'steps', '1048576', 7)).toEqual({ key: '1048583', label: 'steps#7', namespace: 'app' })
  })

  test.each([-1, 1048576, 0.5, Number.NaN])('numberedKey refuses the number %s', (number) => {
    expect(() => numberedKey('app', 'steps', '0', number)).toThrow(
      `Expected the number to be between 0 and 1048575, got ${number} (number)`,
    )
  })
})

describe('names', () => {
  test.each(['a', ' ', 'x'.repeat(500), '🚀', 'with "quotes" and \'those\'', '\u0001'])(
    'checkName accepts %j',
    (name) => {
      expect(checkName(name)).toBe(name)
    },
  )

  test.each<[unknown, string]>([
    ['', '"" (string)'],
    ['x'.repeat(501), `"${'x'.repeat(77)}…" (string)`],
    ['zero\0byte', '"zero\\u0000byte" (string)'],
    ['half a pair \ud83d', '"half a pair \\ud83d" (string)'],
    [undefined, 'undefined'],
    [null, 'null'],
    [42, '42 (number)'],
    [['a'], 'an array'],
  ])('checkName refuses %j', (given, shown) => {
    const message = `Expected name to be a string of 1 to 500 characters without zero bytes, got ${shown}`
    expect(() => checkName(given)).toThrow(UsageError)
    expect(() => checkName(given)).toThrow(message)
  })
})

describe('parts of names', () => {
  test.each([
    ['stripe:undefined', 'undefined', 'an undefined value'],
    ['undefined', 'undefined', 'an undefined value'],
    ['undefined:42', 'undefined', 'an undefined value'],
    ['user:undefined:export', 'undefined', 'an undefined value'],
    ...[...'/.#|,;=&?@+ \t(["'].map((separator) => [`a${separator}undefined`, 'undefined', 'an undefined value']),
    ['row:NaN', 'NaN', 'the number NaN'],
    ['order:[object Object]', '[object Object]', 'an object instead of one of its properties'],
    ['[object Object]', '[object Object]', 'an object instead of one of its properties'],
    ['user-[object Object]-export', '[object Object]', 'an object instead of one of its properties'],
    ['tenant:[object Promise]', '[object Promise]', 'a promise that was not awaited'],
    ['x:[object Map]', '[object Map]', 'an object'],
    ['day:Invalid Date', 'Invalid Date', 'an invalid date'],
  ] as [string, string, string][])('checkName refuses %j, and the message names the part', (name, part, origin) => {
    const error = thrownBy(() => checkName(name, 'key'))
    expect(error).toBeInstanceOf(UsageError)
    expect(error.message).toBe(
      `Expected key to have a value in every part, got ${JSON.stringify(name)} (string): the part "${part}" shows that a template literal interpolated ${origin}`,
    )
    expect(error.hint).toContain('all callers without a value would share this name')
  })

  test.each([
    'undefinedness',
    'is-undefined-behaviour',
    'x_undefined_y',
    'Undefined:1',
    'NaNny:1',
    'nan',
    'naan:undefinable',
    'öundefined',
    'undefinedé',
    'invalid date',
    '[object]',
    'object Object',
    'null',
    'user:null',
  ])('checkName accepts %j', (name) => {
    expect(checkName(name)).toBe(name)
  })

  test('checkName uses the hint of its caller instead of the general hint', () => {
    expect(thrownBy(() => checkName('a:undefined', 'key', 'Read the body first.')).hint).toBe('Read the body first.')
  })

  test('checkName warns about a part that is null, once for names that differ only in their other parts', async () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warnings.mockRestore())
    for (const name of ['person:null:1', 'person:null:2', 'person:null:3', 'company:null', 'Nullable:1', 'nullify']) {
      checkName(name, 'the lock')
    }
    expect(warnings.mock.calls.map(([text]) => text)).toEqual([
      expect.stringMatching(
        /^Expected the lock to have a value in every part, got "person:null:1" \(string\), which contains "null"/,
      ),
      expect.stringContaining('got "company:null"'),
    ])
    expect(warnings.mock.calls[0]![1]).toEqual({ type: 'HoldfastWarning', code: 'HOLDFAST_DOUBTFUL_NAME' })
  })

  test('checkName warns about undefined next to a hyphen or an underscore', () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warnings.mockRestore())
    for (const name of ['invoice-undefined', 'invoice_undefined', 'report-2026-NaN']) checkName(name)
    expect(warnings).toHaveBeenCalledTimes(3)
  })

  test('checkName emits at most 100 warnings, because names can come from clients', async () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warnings.mockRestore())
    // This test loads the module again, because other tests of this file have already used some of the warnings.
    vi.resetModules()
    const { checkName } = await import('../../src/base/index.js')
    for (let n = 0; n < 200; n++) checkName(`client${n}:null`)
    expect(warnings).toHaveBeenCalledTimes(100)
  })
})

function thrownBy(work: () => unknown): UsageError {
  try {
    work()
  } catch (error) {
    return error as UsageError
  }
  throw new Error('Expected an error to be thrown')
}

test('internalLockClass returns a different 32-bit number for each schema and purpose', () => {
  const classes = ['holdfast', 'other'].flatMap((schema) =>
    ['session', 'truth', 'migration'].map((purpose) => internalLockClass(schema, purpose)),
  )
  expect(new Set(classes).size).toBe(6)
  for (const number of classes) expect(number).toBe(number | 0)
})
