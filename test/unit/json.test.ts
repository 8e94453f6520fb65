// Inputs and results must be values that JSON represents exactly. `toJson` refuses all other values.
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { toJson, UsageError } from '../../src/base/index.js'

function refusal(value: unknown): string {
  try {
    return `written as ${toJson(value, 'an input')}`
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    expect((error as UsageError).hint).toMatch(
      /^Pass plain data: .* Convert other values first, for example with \[\.\.\.set\]/,
    )
    return (error as UsageError).message.replace('Expected an input that JSON can represent, got ', '')
  }
}

class Order {
  readonly id = 7
  readonly #secret = 1
  lines = [{ sku: 'a' }]
  get total() {
    return this.#secret
  }
}
class Money {
  readonly cents: number
  constructor(cents: number) {
    this.cents = cents
  }
  toJSON() {
    return { money: this.cents }
  }
}
class Hidden {
  readonly #value = 1
  get value() {
    return this.#value
  }
}
class Self {
  readonly a = 1
  toJSON() {
    return this
  }
}
class Tags extends Map<string, string> {
  readonly owner = 'ada'
}
class NotFound extends Error {
  readonly status = 404
}

describe('a value that JSON represents', () => {
  test.each<[string, unknown, string | undefined]>([
    ['undefined as undefined', undefined, undefined],
    ['null', null, 'null'],
    ['plain data', { a: [1, 'x', true, null], b: { c: {} } }, '{"a":[1,"x",true,null],"b":{"c":{}}}'],
    ['an object without the properties that are undefined', { a: 1, b: undefined }, '{"a":1}'],
    ['an object without its properties that have symbols for names', { a: 1, [Symbol('meta')]: 2 }, '{"a":1}'],
    ['an object without a prototype', Object.assign(Object.create(null), { a: {} }), '{"a":{}}'],
    ['an empty object of another realm', runInNewContext('({ a: {}, b: [] })'), '{"a":{},"b":[]}'],
    ['a Date as text', { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    ['an instance of a class as its fields', new Order(), '{"id":7,"lines":[{"sku":"a"}]}'],
    ['the result of toJSON', [new Money(5)], '[{"money":5}]'],
    ['the fields of an object whose toJSON returns itself', new Self(), '{"a":1}'],
    ['a Buffer as the result of its toJSON', Buffer.from('a'), '{"type":"Buffer","data":[97]}'],
    ['a URL as text', new URL('https://example.com/a'), '"https://example.com/a"'],
    ['an object without a property whose toJSON returns undefined', { a: { toJSON: () => undefined } }, '{}'],
    ['undefined for an object whose toJSON returns undefined', { toJSON: () => undefined }, undefined],
    ['a Proxy as its target', new Proxy({ a: 1 }, {}), '{"a":1}'],
  ])('toJson writes %s', (_, value, json) => {
    expect(toJson(value, 'an input')).toBe(json)
  })
})

describe('a value that JSON does not represent', () => {
  test.each<[string, unknown, string]>([
    ['a Map', new Map([[1, 2]]), 'an object (Map)'],
    ['a Map in a list', { items: [0, 1, 2, { tags: new Map() }] }, 'an object (Map) at input.items[3].tags'],
    ['a Map below a key that is no identifier', { 'a b': new Map() }, 'an object (Map) at input["a b"]'],
    ['a Map with fields of its own', new Tags(), 'an object (Tags)'],
    ['a Map of another realm', runInNewContext('({ m: new Map() })'), 'an object (Map) at input.m'],
    ['a Set', { tags: new Set(['a']) }, 'an object (Set) at input.tags'],
    ['a WeakMap', new WeakMap(), 'an object (WeakMap)'],
    ['a RegExp', [/x/], 'an object (RegExp) at input[0]'],
    ['an Error', new Error('x'), 'an object (Error)'],
    ['an Error with fields', { error: new NotFound() }, 'an object (NotFound) at input.error'],
    ['an Error of another realm', runInNewContext('Object.assign(new Error("x"), { code: 1 })'), 'an object (Error)'],
    ['a Promise', { user: Promise.resolve(1) }, 'an object (Promise) at input.user'],
    ['a typed array', new Uint8Array(2), 'an object (Uint8Array)'],
    ['an ArrayBuffer', new ArrayBuffer(2), 'an object (ArrayBuffer)'],
    ['a DataView', new DataView(new ArrayBuffer(2)), 'an object (DataView)'],
    ['URLSearchParams', new URLSearchParams('a=1'), 'an object (URLSearchParams)'],
    ['Headers', new Headers({ a: '1' }), 'an object (Headers)'],
    ['a boxed string', new String('x'), 'an object (String)'],
    ['a boxed number', new Number(1), 'an object (Number)'],
    ['an instance whose data is private', new Hidden(), 'an object (Hidden)'],
    ['a function', { deep: [() => 1] }, 'a function at input.deep[0]'],
    ['a symbol', Symbol('s'), 'Symbol(s) (symbol)'],
    ['a bigint', { n: 1n }, '1 (bigint) at input.n'],
    ['NaN', { share: Number.NaN }, 'NaN (number) at input.share'],
    ['an infinite number', [Number.POSITIVE_INFINITY], 'Infinity (number) at input[0]'],
    ['an invalid Date', { at: new Date(Number.NaN) }, 'an invalid Date at input.at'],
    ['undefined in a list', { ids: [1, undefined] }, 'undefined at input.ids[1]'],
    ['a hole in a list', Object.assign([1], { length: 2 }), 'undefined at input[1]'],
    ['a Map that toJSON returns', { a: { toJSON: () => ({ m: new Map() }) } }, 'an object (Map) at input.a.m'],
    ['a function that toJSON returns', { toJSON: () => () => 1 }, 'a function'],
    [
      'a toJSON that throws',
      {
        toJSON() {
          throw new Error('not today')
        },
      },
      'one that throws: not today',
    ],
    [
      'a getter that throws what cannot be shown',
      {
        get a() {
          throw { toString: null }
        },
      },
      'one that throws: an object (Object)',
    ],
    ['a revoked Proxy', { a: revoked() }, "one that throws: Cannot perform 'get' on a proxy that has been revoked"],
    ['too deep a structure', nested(600), `more than 500 levels of nesting at input${'.a'.repeat(38)}.…`],
  ])('toJson refuses %s', (_, value, message) => {
    expect(refusal(value)).toBe(message)
  })

  test('toJson refuses a cycle and names its members', () => {
    const cycle: Record<string, unknown> = { order: {} }
    ;(cycle.order as Record<string, unknown>).parent = cycle
    expect(refusal(cycle)).toMatch(/^one that throws: Converting circular structure to JSON[\s\S]*property 'parent'/)
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

function nested(levels: number): object {
  return levels === 0 ? {} : { a: nested(levels - 1) }
}
