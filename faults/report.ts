// What came of a run, for people.
import type { Outcome } from './cluster.ts'

const maxShown = 5

export function show({ seed, seconds, struck, checked, violations, counts }: Outcome) {
  const told = (object: Record<string, number>) =>
    Object.entries(object)
      .map(([what, count]) => `${count} × ${what}`)
      .join(', ')
  const lines = [
    `seed ${seed}, ${seconds} s`,
    `faults survived: ${Object.values(struck).reduce((sum, count) => sum + count, 0)} (${told(struck)})`,
    `history: ${told(counts)}`,
    '',
    ...Object.entries(checked).map(([promise, count]) => {
      const wrong = violations.filter((one) => one.promise === promise).length
      return `${wrong === 0 ? 'holds ' : 'BROKEN'}  ${promise.padEnd(36)} ${String(count).padStart(8)} checked, ${wrong} against it`
    }),
    '',
    violations.length === 0 ? '0 violations' : `${violations.length} VIOLATIONS, the shortest first:`,
  ]
  const shortest = violations.toSorted((a, b) => a.story.length - b.story.length)
  for (const { promise, says, story } of shortest.slice(0, maxShown)) {
    lines.push('', `${promise}: ${says}`, ...story.map((line) => `  ${line}`))
  }
  return lines.join('\n')
}
