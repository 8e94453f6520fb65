import type { PathValue } from '../search/index.js'

/** Maximum number of jobs that a search reads from the indexes on inputs. */
export const maxIndexed = 10_000
const maxPatterns = 16

/**
 * Returns JSON values for the indexes on inputs. Each matching input contains at least one of these values. Returns
 * undefined if the indexes cannot find the value. An input that contains one of the values does not always match, so
 * the search also applies its filter.
 */
export function inputPatterns({ path, value }: PathValue): string[] | undefined {
  // An index cannot find these values: a missing path also matches null, and the search compares objects and arrays as
  // text, including whitespace.
  if (value === 'null' || /^\s*[[{]/.test(value)) return undefined
  const scalars = [value, ...scalarOf(value)]
  const leaves: unknown[] = scalars.flatMap((scalar) => [scalar, [scalar]])
  const patterns = path.reduceRight(
    (inner, part) => inner.flatMap((one) => [{ [part]: one }, ...(/^\d+$/.test(part) ? [[one]] : [])]),
    leaves,
  )
  return patterns.length <= maxPatterns ? patterns.map((pattern) => JSON.stringify(pattern)) : undefined
}

/** Returns the number or the boolean that a text represents. */
function scalarOf(text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'number' || typeof value === 'boolean' ? [value] : []
  } catch {
    return []
  }
}
