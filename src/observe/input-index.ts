import type { PathValue } from '../search/index.js'

/** Maximum number of jobs that a search reads from the indexes on inputs. */
export const maxIndexed = 10_000
const maxPatterns = 16

/**
 * Returns JSON values, one of which each matching input contains. Returns undefined if the indexes on inputs cannot find
 * the value. An input that contains one of the values does not always match, so the search also applies its filter.
 */
export function inputPatterns({ path, value }: PathValue): string[] | undefined {
  // A missing part has the value null, and the text of an object or a list depends on its spaces.
  if (value === 'null' || /^\s*[[{]/.test(value)) return undefined
  const scalars = [value, ...scalarOf(value)]
  const leaves: unknown[] = scalars.flatMap((scalar) => [scalar, [scalar]])
  const patterns = path.reduceRight(
    (inner, part) => inner.flatMap((one) => [{ [part]: one }, ...(/^\d+$/.test(part) ? [[one]] : [])]),
    leaves,
  )
  return patterns.length <= maxPatterns ? patterns.map((pattern) => JSON.stringify(pattern)) : undefined
}

/** Returns the number or the boolean that a text denotes. */
function scalarOf(text: string): unknown[] {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'number' || typeof value === 'boolean' ? [value] : []
  } catch {
    return []
  }
}
