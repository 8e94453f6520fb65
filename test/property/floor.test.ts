// The pure functions with random and malicious input. They throw nothing but a UsageError, they can read what they write, and their time is at most
// proportional to the length of the input.
import { expect, test } from 'vitest'
import {
  abortSignal,
  checkName,
  clip,
  describe as described,
  duration,
  flag,
  formatDuration,
  hashedKey,
  numberedKey,
  oneOf,
  pairKey,
  parseDuration,
  readOptions,
  suggest,
  text,
  toJson,
  toRecordedError,
  UsageError,
  wholeNumber,
} from '../../src/base/index.js'
import { ruleFromOptions, ruleFromText } from '../../src/cron/index.js'
import { readStringItem } from '../../src/http/string-item.js'
import { checkSchemaName, checkUrl, inSchema } from '../../src/postgres/index.js'
import { readJobSearch, readSearch, writeSearchValue } from '../../src/search/index.js'
import { randomFrom, randomName } from '../setup/random.js'
import { seedOf } from './seed.js'

/** Number of inputs, from HOLDFAST_INPUTS. */
const many = Number(process.env.HOLDFAST_INPUTS ?? 2_000)
const seed = seedOf('floor')
const random = randomFrom(seed)

const below = (limit: number) => Math.floor(random() * limit)
const pick = <T>(from: readonly T[]): T => from[below(from.length)]!

/** Pieces that have a meaning for the readers, so that random combinations get far before they are rejected. */
const pieces = [
  ...[
    '*',
    '*/',
    '/',
    '-',
    ',',
    '?',
    'L',
    'W',
    '#',
    '@',
    ' ',
    '  ',
    '\t',
    '\n',
    '0',
    '1',
    '5',
    '15',
    '30',
    '59',
    '60',
    '99',
    '2026',
  ],
  ...[
    'MON',
    'fri',
    'JAN',
    'dec',
    '@daily',
    '@every',
    'ms',
    's',
    'm',
    'h',
    'd',
    '.',
    '1.5',
    '-1',
    'e9',
    'Infinity',
    'NaN',
  ],
  ...[
    'queue:',
    'state:',
    'kind:',
    'error:',
    'since:',
    'input.',
    'input.a.b:',
    'id:',
    'lane:',
    '"',
    '\\',
    ':',
    'failed',
    'lane',
    '17',
    'x y',
  ],
  ...[
    'postgres://',
    'user:pass@',
    'host',
    ':5432',
    '/db',
    '?',
    '%',
    '%zz',
    '[::1]',
    "'",
    '$',
    '\0',
    '\ud800',
    '\udfff',
    '🚀',
    '\u202e',
  ],
  ...[
    'Europe/London',
    'UTC',
    'GMT+1',
    '__proto__',
    'constructor',
    '{',
    '}',
    '[',
    ']',
    'null',
    'true',
    '{"a":1}',
    '(',
    ')',
    '+',
  ],
]
const randomText = () =>
  Array.from({ length: below(12) }, () => (random() < 0.9 ? pick(pieces) : randomName(random, 5))).join('')

const bare = Object.create(null) as object
const evasive = Object.defineProperty({}, 'constructor', {
  get() {
    throw new Error('constructor')
  },
})
const spiteful = Object.freeze({
  toString() {
    throw new Error('toString')
  },
  toJSON() {
    throw new Error('toJSON')
  },
})
const odd: unknown[] = [
  ...[
    undefined,
    null,
    true,
    0,
    -0,
    1.5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    2 ** 53,
    1n,
    Symbol('s'),
    () => {},
    [],
    {},
    new Date(Number.NaN),
  ],
  ...[
    bare,
    spiteful,
    evasive,
    new Map(),
    new Proxy({}, {}),
    { constructor: { name: Symbol('s') } },
    { constructor: null },
    Object(1n),
  ],
]
const anything = () => (random() < 0.8 ? randomText() : pick(odd))

/** Calls the function. Returns its result, or undefined if it threw a UsageError. Any other error fails the test. */
function resultOf<T>(what: string, given: unknown, call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    if (error instanceof UsageError) return undefined
    throw new Error(
      `${what} of ${typeof given === 'string' ? JSON.stringify(given) : typeof given} threw ${String(error)}`,
      { cause: error },
    )
  }
}

const rules = {
  wait: duration(0, 1_000),
  mode: oneOf('a', 'b'),
  most: wholeNumber(1, 9),
  flag,
  text,
  signal: abortSignal,
}

const readers: Record<string, (given: never) => unknown> = {
  parseDuration,
  checkName: (given: unknown) => checkName(given),
  describe: described,
  readOptions: (given: unknown) => readOptions('here', given, rules),
  'readOptions of a value': (given: unknown) => readOptions('here', { [pick(Object.keys(rules))]: given }, rules),
  'readOptions of a key': (given: unknown) => readOptions('here', { [String(described(given))]: 1 }, rules),
  readRule: (given: unknown) => ruleFromOptions('here', given as never),
  'readRule, cron': (cron: string) => ruleFromOptions('here', { cron }),
  'readRule, every': (every: never) => ruleFromOptions('here', { every }),
  'readRule, zone': (timezone: string) => ruleFromOptions('here', { cron: '0 3 * * *', timezone }),
  'readRule, at': (at: unknown) => ruleFromOptions('here', { at: at as Date }),
  writeJson: (given: unknown) => toJson(given, 'a value'),
  'writeJson, nested': (given: unknown) => toJson({ a: [given, { given }] }, 'a value'),
  toRecordedError,
  'recordOf an error': (given: unknown) =>
    toRecordedError(Object.assign(new Error('x'), { name: given, message: given, code: given, stack: given })),
  checkUrl: (given: string) => checkUrl(String(described(given)), 'url'),
  checkSchemaName: (given: unknown) => typeof given === 'string' && checkSchemaName(given),
}
const textReaders: Record<string, (given: string) => unknown> = {
  readSearch,
  readJobSearch,
  suggest: (given) => suggest(given, ['queue', 'state', 'kind']),
  clip,
  hashedKey: (given) => hashedKey(given, given),
  'readStringItem, bare': (given) => readStringItem(given, true),
  readStringItem: (given) => readStringItem(given, false),
  checkUrl: (given) => checkUrl(given, 'url'),
  checkSchemaName,
  'inSchema, a name': (given) => inSchema('select from holdfast.job', given),
}

test('the readers of user input throw nothing but a UsageError', { timeout: 60_000 }, () => {
  for (let at = 0; at < many; at++) {
    const given = anything()
    for (const [what, reader] of Object.entries(readers)) resultOf(what, given, () => reader(given as never))
    const input = randomText()
    for (const [what, reader] of Object.entries(textReaders)) resultOf(what, input, () => reader(input))
  }
  for (const given of odd)
    for (const [what, reader] of Object.entries(readers)) resultOf(what, given, () => reader(given as never))
})

test('rules, search values and JSON are read as they were written', () => {
  for (let at = 0; at < many; at++) {
    const input = randomText()
    const rule = resultOf('readRule', input, () =>
      ruleFromOptions('here', { cron: input, timezone: pick(['UTC', 'Europe/London']) }),
    )
    if (rule) expect(ruleFromText(rule.text).text).toBe(rule.text)
    const value = randomText().slice(0, 400)
    expect(readSearch(`kind:${writeSearchValue(value)} 1`)).toMatchObject([{ word: 'kind', value }, { value: '1' }])
    expect(readJobSearch(`kind:${writeSearchValue(value)}`).kinds).toEqual([value])
    const tree = () => [randomText(), at, -1 / (at + 1), null, true, { [randomText()]: randomText() }]
    const document = { [randomText()]: tree(), again: tree() }
    expect(JSON.parse(toJson(document, 'a value')!)).toEqual(JSON.parse(JSON.stringify(document)))
  }
})

test('a duration is parsed as the sum of its units, and its formatted text can be parsed again', () => {
  const units = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 }
  for (let at = 0; at < many; at++) {
    const parts = Object.entries(units).flatMap(([unit, ms]) =>
      random() < 0.5 ? [{ unit, ms, amount: below(1_000) }] : [],
    )
    const written = parts.map(({ unit, amount }) => `${amount}${unit}`).join('')
    const total = parts.reduce((sum, { ms, amount }) => sum + ms * amount, 0)
    expect([written, parseDuration(written)]).toEqual([written, parts.length > 0 ? total : undefined])
    // The formatted text can be parsed again and is rounded to its last unit.
    const again = parseDuration(formatDuration(total).replaceAll(' ', ''))
    expect(again).toBeLessThanOrEqual(total + 500)
    expect(again).toBeGreaterThanOrEqual(total * 0.95 - 500)
  }
  for (const text of ['9'.repeat(400), '1.'.repeat(99), `${'9'.repeat(308)}9`])
    expect(parseDuration(`${text}d`)).toBeUndefined()
})

test('keys have 64 bits, and equal names alone have equal keys', () => {
  const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n]
  const labels = new Map<string, string>()
  for (let at = 0; at < many; at++) {
    const [namespace, name] = [randomName(random, 20), randomName(random, 20)]
    const { key } = hashedKey(namespace, name)
    expect(BigInt(key) >= least && BigInt(key) <= most).toBe(true)
    expect(hashedKey(namespace, name).key).toBe(key)
    const label = JSON.stringify([namespace, name])
    expect(labels.get(key) ?? label).toBe(label)
    labels.set(key, label)
    const [upper, lower] = [below(2 ** 32) - 2 ** 31, below(2 ** 32) - 2 ** 31]
    const pair = BigInt(pairKey(upper, lower).key)
    expect([Number(pair >> 32n), Number(BigInt.asIntN(32, pair))]).toEqual([upper, lower])
    const number = below(2 ** 20)
    expect(BigInt(numberedKey(namespace, name, key, number).key) - BigInt(key)).toBe(BigInt(number))
  }
})

/** Long inputs. A reader that backtracks or scans repeatedly needs at least quadratic time for them. */
const long: Record<string, (length: number) => string> = {
  letters: (length) => 'a'.repeat(length),
  digits: (length) => '1'.repeat(length),
  'units without an end': (length) => `${'1s'.repeat(length / 2)}!`,
  'fractions without an end': (length) => '1.1'.repeat(length / 3),
  spaces: (length) => `${' '.repeat(length)}x`,
  'spaces between': (length) => `"a"${' '.repeat(length)}!`,
  commas: (length) => '1,'.repeat(length / 2),
  'a list of minutes': (length) => `${'1,'.repeat(length / 2)}1 * * * *`,
  'a list of ranges': (length) => `${'1-2,'.repeat(length / 4)}1 * * * *`,
  stars: (length) => '* '.repeat(length / 2),
  slashes: (length) => '*/'.repeat(length / 2),
  quotes: (length) => '"'.repeat(length),
  backslashes: (length) => `"${'\\'.repeat(length)}`,
  'a string': (length) => `"${'\\"'.repeat(length / 2)}`,
  colons: (length) => 'a:'.repeat(length / 2),
  dots: (length) => `input${'.a'.repeat(length / 2)}:1`,
  'a zone': (length) => `Europe/${'a'.repeat(length)}`,
  percents: (length) => `postgres://${'%41'.repeat(length / 3)}@h/x`,
  ats: (length) => `postgres://${'@'.repeat(length)}h/x`,
  dollars: (length) => 'holdfast.$'.repeat(length / 10),
}

test('the readers of user input need at most time proportional to the length for 100,000 characters', {
  timeout: 120_000,
}, () => {
  const [short, full] = [10_000, 100_000]
  // CPU time, because other processes share the processor.
  const msOf = (work: () => unknown) => {
    const from = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(from)
    return (user + system) / 1_000
  }
  for (const [shape, make] of Object.entries(long)) {
    for (const [what, reader] of Object.entries({ ...readers, ...textReaders })) {
      const measure = (length: number) => {
        const given = make(length)
        return Math.min(...[1, 2, 3].map(() => msOf(() => resultOf(what, shape, () => reader(given as never)))))
      }
      const ms = measure(full)
      // Times below 200 ms count as fast. Ten times the length may take ten times as long. Quadratic time would be a hundred times as long.
      if (ms > 200)
        expect([what, shape, ms / measure(short)]).toEqual([
          what,
          shape,
          expect.toSatisfy((times: number) => times < 40),
        ])
      expect([what, shape, ms]).toEqual([what, shape, expect.toSatisfy((spent: number) => spent < 2_000)])
    }
  }
})
