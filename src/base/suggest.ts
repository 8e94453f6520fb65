/** Returns the candidate that is closest to a mistyped word, or undefined if no candidate is similar. */
export function suggest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    // The difference in length is a lower bound for the distance. This check avoids comparing very long words.
    if (Math.abs(candidate.length - word.length) >= bestDistance) continue
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/**
 * Returns a question that suggests the candidate closest to a mistyped name, or undefined if no candidate is similar.
 */
export function didYouMean(name: string, candidates: Iterable<string>): string | undefined {
  const meant = suggest(name, candidates)
  return meant === undefined ? undefined : `Did you mean "${meant}"?`
}

/** Returns the edit distance: the number of letters to insert, delete, replace, or swap with the next letter. */
function editDistance(from: string, to: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const substitution = previous[column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1)
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      const swap = swapped ? beforePrevious[column - 2]! + 1 : substitution
      current.push(Math.min(substitution, swap, previous[column]! + 1, current[column - 1]! + 1))
    }
    beforePrevious = previous
    previous = current
  }
  return previous[to.length]!
}
