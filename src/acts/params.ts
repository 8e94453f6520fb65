import { type OptionRule, oneOf, readOptions, UsageError } from '../base/index.js'

/**
 * Type of a view's or an act's parameter. `key` is a 64-bit key in decimal, and `id` is the ID of a job. Each value
 * can be passed as text (from a URL) or as a JSON value. `json` is a text that contains JSON.
 */
type ParamKind =
  | 'text'
  | 'key'
  | 'id'
  | 'flag'
  | 'time'
  | 'json'
  | { readonly number: readonly [min: number, max: number] }
  | { readonly oneOf: readonly string[] }

export type ParamKinds = Readonly<Record<string, ParamKind>>
export type NoParams = Readonly<Record<never, ParamKind>>

type ValueOf<Kind> = Kind extends 'flag'
  ? boolean
  : Kind extends 'id' | { readonly number: unknown }
    ? number
    : Kind extends 'time'
      ? Date
      : Kind extends { readonly oneOf: readonly (infer Word)[] }
        ? Word
        : string

/** Parsed parameters: all required parameters, and the optional parameters that were given. */
export type ParsedParams<Needs, Params> = { readonly [Name in keyof Needs]: ValueOf<Needs[Name]> } & {
  readonly [Name in keyof Params]?: ValueOf<Params[Name]> | undefined
}

const maxTextLength = 2_000

export function readParams<Needs extends ParamKinds, Params extends ParamKinds>(
  where: string,
  given: object,
  { needs, params }: { readonly needs: Needs; readonly params: Params },
): ParsedParams<Needs, Params> {
  const kinds: ParamKinds = { ...needs, ...params }
  const rules = Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, ruleOf(kind)]))
  const read = readOptions(where, given, rules)
  for (const name of Object.keys(needs)) {
    if (read[name] === undefined) throw new UsageError(`Expected ${name} to be ${rules[name]!.expected}, got nothing`)
  }
  return read as ParsedParams<Needs, Params>
}

function ruleOf(kind: ParamKind): OptionRule<unknown> {
  if (typeof kind !== 'object') return rules[kind]
  return 'oneOf' in kind ? oneOf(...kind.oneOf) : numberBetween(...kind.number)
}

/** Returns the JSON schema of a parameter that is passed as a JSON value. */
export function paramSchema(kind: ParamKinds[string]): object {
  if (typeof kind !== 'object') return schemas[kind]
  if ('oneOf' in kind) return { type: 'string', enum: kind.oneOf }
  const [minimum, maximum] = kind.number
  return { type: 'integer', minimum, maximum }
}

const schemas: Record<Extract<ParamKind, string>, object> = {
  text: { type: 'string', minLength: 1, maxLength: maxTextLength },
  key: { type: 'string', pattern: '^-?\\d{1,19}$' },
  id: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
  flag: { type: 'boolean' },
  json: { type: 'string', description: 'JSON, as text.' },
  time: { type: 'string', format: 'date-time' },
}

const rules: Record<Extract<ParamKind, string>, OptionRule<unknown>> = {
  text: {
    expected: `a string of 1 to ${maxTextLength} characters`,
    read: (given) =>
      typeof given === 'string' &&
      given !== '' &&
      given.length <= maxTextLength &&
      !given.includes('\0') &&
      given.isWellFormed()
        ? given
        : undefined,
  },
  key: {
    expected: 'a 64-bit key in decimal',
    read: (given) =>
      typeof given === 'string' && /^-?\d{1,19}$/.test(given) && BigInt.asIntN(64, BigInt(given)) === BigInt(given)
        ? given
        : undefined,
  },
  id: numberBetween(1, Number.MAX_SAFE_INTEGER),
  flag: {
    expected: 'true or false',
    read: (given) =>
      given === true || given === 'true' ? true : given === false || given === 'false' ? false : undefined,
  },
  json: {
    expected: 'JSON, as text',
    read: (given) => (typeof given === 'string' && isJson(given) ? given : undefined),
  },
  time: {
    expected: 'a time such as 2030-01-31T18:00:00.000Z',
    read(given) {
      const isIsoTime = typeof given === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/.test(given)
      return isIsoTime && !Number.isNaN(Date.parse(given)) ? new Date(given) : undefined
    },
  },
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function numberBetween(min: number, max: number): OptionRule<number> {
  return {
    expected: `a whole number between ${min} and ${max}`,
    read(given) {
      const number = typeof given === 'string' && /^-?\d{1,16}$/.test(given) ? Number(given) : given
      return Number.isSafeInteger(number) && (number as number) >= min && (number as number) <= max
        ? (number as number)
        : undefined
    },
  }
}
