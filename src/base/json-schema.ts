/** JSON Schema, which is an object or a boolean. */
export type JsonSchema = unknown

type Keywords = Readonly<Record<string, unknown>>

const maxDepth = 100

/**
 * Compares a JSON value with a JSON schema. Returns the first difference, such as `to: expected a string, got 5`, or undefined if there is none.
 *
 * Checks the keywords that describe the shape of data: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`,
 * `prefixItems`, `anyOf`, `oneOf`, `allOf`, local `$ref`, and the limits on numbers, texts and arrays. Ignores all other keywords, such as
 * `format`, so a value without a difference can still be invalid.
 */
export function schemaDifference(value: unknown, schema: JsonSchema): string | undefined {
  return difference(value, schema, { root: schema, path: '', depth: 0 })
}

interface Place {
  readonly root: JsonSchema
  /** Path of the value, such as `items[3].name`. */
  readonly path: string
  readonly depth: number
}

function difference(value: unknown, schema: JsonSchema, place: Place): string | undefined {
  if (schema === false) return at(place, `expected nothing, got ${shown(value)}`)
  if (typeof schema !== 'object' || schema === null || place.depth > maxDepth) return undefined
  const keywords = schema as Keywords
  const deeper = { ...place, depth: place.depth + 1 }
  const { $ref, allOf, anyOf, oneOf } = keywords
  if (typeof $ref === 'string') {
    const found = difference(value, resolve(place.root, $ref), deeper)
    if (found !== undefined) return found
  }
  for (const check of checks) {
    const expected = check(value, keywords)
    if (expected !== undefined) return at(place, `expected ${expected}, got ${shown(value)}`)
  }
  for (const one of listOf(allOf)) {
    const found = difference(value, one, deeper)
    if (found !== undefined) return found
  }
  for (const choices of [listOf(anyOf), listOf(oneOf)]) {
    const differences = choices.map((one) => difference(value, one, deeper))
    if (differences.length > 0 && differences.every((one) => one !== undefined)) return differences[0]
  }
  return Array.isArray(value) ? itemDifference(value, keywords, deeper) : memberDifference(value, keywords, deeper)
}

type Check = (value: unknown, keywords: Keywords) => string | undefined

/** Each check returns what the schema expects, or undefined if the value matches. */
const checks: readonly Check[] = [
  (value, { type }) => {
    const types = typeof type === 'string' ? [type] : listOf(type).map(String)
    if (types.length === 0 || types.some((one) => isOfType(value, one))) return undefined
    return types.map((one) => (/^[aeiou]/.test(one) ? `an ${one}` : one === 'null' ? one : `a ${one}`)).join(' or ')
  },
  (value, { enum: options }) =>
    Array.isArray(options) && !options.some((one) => isSame(one, value)) ? options.map(shown).join(' or ') : undefined,
  (value, keywords) => ('const' in keywords && !isSame(keywords.const, value) ? shown(keywords.const) : undefined),
  (value, { minimum, maximum, exclusiveMinimum, exclusiveMaximum }) => {
    if (typeof value !== 'number') return undefined
    if (typeof minimum === 'number' && value < minimum) return `at least ${minimum}`
    if (typeof maximum === 'number' && value > maximum) return `at most ${maximum}`
    if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum) return `more than ${exclusiveMinimum}`
    if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum) return `less than ${exclusiveMaximum}`
    return undefined
  },
  (value, { minLength, maxLength }) => {
    if (typeof value !== 'string') return undefined
    const length = [...value].length
    if (typeof minLength === 'number' && length < minLength) return `at least ${minLength} characters`
    if (typeof maxLength === 'number' && length > maxLength) return `at most ${maxLength} characters`
    return undefined
  },
  (value, { minItems, maxItems }) => {
    if (!Array.isArray(value)) return undefined
    if (typeof minItems === 'number' && value.length < minItems) return `at least ${minItems} items`
    if (typeof maxItems === 'number' && value.length > maxItems) return `at most ${maxItems} items`
    return undefined
  },
]

function itemDifference(value: readonly unknown[], { prefixItems, items }: Keywords, place: Place): string | undefined {
  const first = listOf(prefixItems)
  for (const [index, item] of value.entries()) {
    const found = difference(item, first[index] ?? items, { ...place, path: `${place.path}[${index}]` })
    if (found !== undefined) return found
  }
  return undefined
}

function memberDifference(value: unknown, keywords: Keywords, place: Place): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const properties = (keywords.properties ?? {}) as Keywords
  const inside = (name: string): Place => ({ ...place, path: place.path === '' ? name : `${place.path}.${name}` })
  for (const name of listOf(keywords.required).map(String)) {
    if (!Object.hasOwn(value, name)) return at(inside(name), 'is missing')
  }
  for (const [name, member] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) {
      const found = difference(member, properties[name], inside(name))
      if (found !== undefined) return found
    } else if (keywords.patternProperties === undefined) {
      if (keywords.additionalProperties === false) return at(inside(name), 'is not a known property')
      const found = difference(member, keywords.additionalProperties, inside(name))
      if (found !== undefined) return found
    }
  }
  return undefined
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}

/** Finds the part of the schema that a reference such as `#/$defs/address` names. Returns undefined for other references. */
function resolve(root: JsonSchema, reference: string): JsonSchema {
  if (reference === '#') return root
  if (!reference.startsWith('#/')) return undefined
  const names = reference.slice(2).split('/')
  return names.reduce<unknown>((part, name) => {
    const key = decodeURIComponent(name).replaceAll('~1', '/').replaceAll('~0', '~')
    return typeof part === 'object' && part !== null ? (part as Keywords)[key] : undefined
  }, root)
}

/** Whether two JSON values are equal. Compares the order of properties too, because constants in schemas are rarely objects. */
function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function at({ path }: Place, text: string): string {
  if (path === '') return text
  return text.startsWith('is ') ? `${path} ${text}` : `${path}: ${text}`
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}
