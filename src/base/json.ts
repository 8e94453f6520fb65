import { UsageError } from './errors.js'
import { describe } from './options.js'

/**
 * The value as JSON, or undefined for nothing. What JSON cannot carry is refused, not silently changed; `what` is how the
 * complaint calls it.
 */
export function writeJson(value: unknown, what: string): string | undefined {
  if (value === undefined) return undefined
  try {
    const uncarried = findUncarried(value)
    if (uncarried) throw new TypeError(describe(uncarried.part))
    return JSON.stringify(value)
  } catch (error) {
    throw new UsageError(
      `Expected ${what} that JSON can carry, got one with ${error instanceof TypeError ? error.message : error}`,
      'Give plain data: strings, finite numbers, booleans, null, arrays and objects of these.',
    )
  }
}

/** Walks by itself: a replacer makes JSON.stringify ten times as slow. What would be a circle is left to it to refuse. */
function findUncarried(value: unknown, depth = 0): { part: unknown } | undefined {
  switch (typeof value) {
    case 'bigint':
    case 'function':
    case 'symbol':
      return { part: value }
    case 'number':
      return Number.isFinite(value) ? undefined : { part: value }
    case 'object': {
      if (value === null || depth > 500 || typeof (value as { toJSON?: unknown }).toJSON === 'function')
        return undefined
      if (Array.isArray(value)) {
        for (const part of value) {
          const found = findUncarried(part, depth + 1)
          if (found) return found
        }
        return undefined
      }
      for (const key in value) {
        const found = findUncarried((value as Record<string, unknown>)[key], depth + 1)
        if (found) return found
      }
      return undefined
    }
    default:
      return undefined
  }
}
