// Hostile values, which no handler should throw or return. The fault suite uses them as well.
import vm from 'node:vm'
import type { Random } from './random.ts'

export interface Hostile {
  /** Description of the value, for failure messages. */
  readonly name: string
  /** Makes a new value, because some values change when they are read. */
  make(): unknown
}

const broken = () => new Error('hostile')
const fail = (): never => {
  throw broken()
}
const traps = [
  ...['get', 'has', 'getPrototypeOf', 'ownKeys', 'getOwnPropertyDescriptor', 'isExtensible', 'set', 'defineProperty'],
  ...['apply', 'construct', 'setPrototypeOf', 'preventExtensions', 'deleteProperty'],
]

function revoked<Target extends object>(target: Target = {} as Target) {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

const trapping = (target: object, ...names: string[]) =>
  new Proxy(target, Object.fromEntries(names.map((name) => [name, fail])))

/** Adds getters to an object. By default, they throw. */
function withGetters<Target extends object>(target: Target, names: readonly PropertyKey[], get: () => unknown = fail) {
  for (const name of names) Object.defineProperty(target, name, { get, configurable: true })
  return target
}

// The stack comes first, because its definition reads the name and the message.
const members = ['stack', 'name', 'message', 'code', 'cause', 'errors', 'constructor', Symbol.toStringTag]

function nested(depth: number, wrap: (inner: unknown) => unknown) {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = wrap(value)
  return value
}

/** Marks the rejection of a promise as handled. */
function handled<P extends Promise<unknown>>(promise: P): P {
  promise.catch(() => {})
  return promise
}

function busy(ms: number) {
  const over = performance.now() + ms
  while (performance.now() < over);
  return 'late'
}

type Settle = (value?: unknown) => void
const thenable = (then: (resolve: Settle, reject: Settle) => void) => ({ then })

class Shouting extends Error {
  override get message(): string {
    return fail()
  }
}

const makers: Record<string, () => unknown> = {
  undefined: () => undefined,
  null: () => null,
  'not a number': () => Number.NaN,
  'a symbol': () => Symbol('x'),
  'a symbol with a long description': () => Symbol('x'.repeat(1_000_000)),
  'a bigint of 100,000 bits': () => 2n ** 100_000n,
  'a function': () => fail,
  'a class': () => Shouting,
  'a generator': () =>
    (function* () {
      yield fail()
    })(),
  'a text with zero bytes and half characters': () => 'a\0b\uD800c',
  'a text of 1.2 MB': () => 'x'.repeat(1_200_000),
  'a revoked proxy': () => revoked(),
  'a revoked proxy of an array': () => revoked([]),
  'a revoked proxy of a function': () => revoked(fail),
  'a revoked proxy of an error': () => revoked(new Error('x')),
  'a proxy whose traps all throw': () => trapping({}, ...traps),
  'a proxy of an error whose traps all throw': () => trapping(new Error('x'), ...traps),
  'a proxy of a function whose traps all throw': () => trapping(() => {}, ...traps),
  ...Object.fromEntries(traps.slice(0, 5).map((trap) => [`a proxy that throws at ${trap}`, () => trapping({}, trap)])),
  ...Object.fromEntries(
    traps.slice(0, 5).map((trap) => [`a proxy of an error that throws at ${trap}`, () => trapping(broken(), trap)]),
  ),
  'a proxy that throws revoked proxies': () =>
    new Proxy(
      {},
      {
        get() {
          throw revoked()
        },
        getPrototypeOf() {
          throw revoked()
        },
      },
    ),
  'a proxy with new proxies for all members': function endless(): object {
    return new Proxy({}, { get: (_, key) => (key === 'then' ? undefined : endless()) })
  },
  'an array with a wrong length': () =>
    new Proxy([], { get: (target: never[], key) => (key === 'length' ? 2 ** 32 - 1 : Reflect.get(target, key)) }),
  'an array of four billion holes': () => new Array(2 ** 32 - 1),
  'an array with an element that throws': () => withGetters([1, 2, 3], [1]),
  'an error whose members throw': () => withGetters(new Error('x'), members),
  'an error whose members throw revoked proxies': () =>
    withGetters(new Error('x'), members, () => {
      throw revoked()
    }),
  'an error whose members are revoked proxies': () => withGetters(new Error('x'), members, () => revoked()),
  'an error whose members are slow': () => withGetters(new Error('x'), members, () => busy(5)),
  'an error whose members call themselves': () =>
    withGetters(new Error('x'), members, function again(): never {
      return again()
    }),
  'an error of a class whose message throws': () => new Shouting(),
  'an error with members of other types': () =>
    Object.assign(new Error('x'), { name: Symbol('n'), message: 5n, code: {}, stack: [] }),
  'an error with a message of 1.2 MB': () => new Error('x'.repeat(1_200_000)),
  'an error with zero bytes and half characters': () =>
    Object.assign(new Error('\0\uD800'), { code: '\0', name: '\0' }),
  'an error that is its own cause': () => {
    const error = new Error('x')
    return Object.assign(error, { cause: error, message: '' })
  },
  'an AggregateError that holds itself': () => {
    const error = new AggregateError([], '')
    error.errors.push(error)
    return error
  },
  'an AggregateError of revoked proxies': () => new AggregateError([revoked(), revoked()]),
  'a DOMException': () => new DOMException('x', 'AbortError'),
  'an error of another realm': () => vm.runInNewContext('new TypeError("x")'),
  'a proxy of another realm': () => vm.runInNewContext('(p => (p.revoke(), p.proxy))(Proxy.revocable({}, {}))'),
  'an error that is frozen': () => Object.freeze(new Error('x')),
  'an object without prototype': () => Object.assign(Object.create(null), { message: 'x' }),
  'an object with the prototype of errors': () => Object.create(Error.prototype),
  'an object whose members throw': () =>
    withGetters({}, [...members, 'then', 'toJSON', 'toString', Symbol.toPrimitive]),
  'an object that cannot become a text': () => ({ toString: fail, valueOf: fail, [Symbol.toPrimitive]: fail }),
  'an object whose toString returns no string': () => ({ toString: () => ({}), [Symbol.toPrimitive]: () => revoked() }),
  'an object whose text is 1.2 MB long': () => ({ toString: () => 'x'.repeat(1_200_000) }),
  'an object whose text is slow': () => ({ toString: () => busy(20) }),
  'an object that refuses to become JSON': () => ({ toJSON: fail }),
  'an object that becomes a revoked proxy as JSON': () => ({ toJSON: () => revoked() }),
  'an object that throws a revoked proxy as JSON': () => ({
    toJSON() {
      throw revoked()
    },
  }),
  'an object that holds itself': () => {
    const circle: { again?: object } = {}
    circle.again = circle
    return circle
  },
  'arrays in arrays, 10,000 deep': () => nested(10_000, (inner) => [inner]),
  'objects in objects, 10,000 deep': () => nested(10_000, (inner) => ({ inner })),
  'arrays in arrays, 3,000 deep': () => nested(3_000, (inner) => [inner]),
  'an object of 2^40 parts': () => nested(40, (inner) => [inner, inner]),
  'an invalid date': () => new Date(Number.NaN),
  'a buffer of 1.2 MB': () => new Uint8Array(1_200_000),
  'an object whose `then` throws when it is read': () => withGetters({}, ['then']),
  'an object whose `then` throws a revoked proxy when it is read': () =>
    withGetters({}, ['then'], () => {
      throw revoked()
    }),
  'a thenable that throws': () => thenable(fail),
  'a thenable that throws a revoked proxy': () =>
    thenable(() => {
      throw revoked()
    }),
  'a thenable that rejects with a revoked proxy': () => thenable((_, reject) => reject(revoked())),
  'a thenable that resolves twice': () =>
    thenable((resolve, reject) => {
      resolve(1)
      resolve(2)
      reject(broken())
      throw broken()
    }),
  'a thenable that resolves with thenables': () =>
    thenable((resolve) => resolve(thenable((again) => again(revoked())))),
  'a thenable that resolves later, and twice': () =>
    thenable((resolve, reject) => {
      setImmediate(() => {
        resolve(revoked())
        reject(broken())
      })
    }),
  'a promise whose then calls back twice': () => {
    const promise = Promise.resolve(1) as unknown as { then: unknown }
    // biome-ignore lint/suspicious/noThenProperty: the value needs an own `then`
    promise.then = (resolve?: Settle, reject?: Settle) => {
      resolve?.(1)
      resolve?.(2)
      reject?.(broken())
    }
    return promise
  },
  'a rejected promise that cannot be caught': () =>
    Object.assign(handled(Promise.reject(revoked())), { catch() {}, finally() {} }),
  'a promise whose constructor throws': () => withGetters(Promise.resolve(1), ['constructor']),
  'a promise of another realm': () => handled(vm.runInNewContext('Promise.reject(new Error("x"))')),
}

/** All hostile values. */
export const hostileValues: readonly Hostile[] = Object.entries(makers).map(([name, make]) => ({ name, make }))

/** Ordinary values that contain a hostile value. */
const wraps: Record<string, (value: unknown) => unknown> = {
  'in an array': (value) => [value],
  'in an object': (value) => ({ value }),
  'as a message': (value) => Object.assign(new Error('x'), { message: value }),
  'as a cause': (value) => new Error('x', { cause: value }),
  'as a name and a code': (value) => Object.assign(new Error('x'), { name: value, code: value }),
  'in an AggregateError': (value) => new AggregateError([value]),
}

/** Chooses a hostile value, sometimes inside an ordinary one. */
export function hostile(random: Random): Hostile {
  const { name, make } = random.pick(hostileValues)
  if (random.chance(0.6)) return { name, make }
  const [how, wrap] = random.pick(Object.entries(wraps))
  return { name: `${name}, ${how}`, make: () => wrap(make()) }
}

const misbehaviors: Record<string, (make: () => unknown) => () => unknown> = {
  throws: (make) => () => {
    throw make()
  },
  'throws later': (make) => async () => {
    await new Promise((resolve) => setImmediate(resolve))
    throw make()
  },
  'rejects with': (make) => () => Promise.reject(make()),
  returns: (make) => () => make(),
  'returns later': (make) => async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return make()
  },
}

/** Returns a function that throws, rejects with, or returns a hostile value, as a handler may do. */
export function misbehave(random: Random): { readonly name: string; run(): unknown } {
  const { name, make } = hostile(random)
  const [how, misbehavior] = random.pick(Object.entries(misbehaviors))
  return { name: `${how} ${name}`, run: misbehavior(make) }
}
