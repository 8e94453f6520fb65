// Formats a run's outcome for people.
import type { Outcome } from './cluster.ts'

const maxShown = 5

export function formatReport({ seed, seconds, injected, checked, violations, counts }: Outcome) {
  const list = (object: Record<string, number>) =>
    Object.entries(object)
      .map(([what, count]) => `${count} × ${what}`)
      .join(', ')
  const lines = [
    `seed ${seed}, ${seconds} s`,
    `faults survived: ${Object.values(injected).reduce((sum, count) => sum + count, 0)} (${list(injected)})`,
    `history: ${list(counts)}`,
    '',
    ...Object.entries(checked).map(([guarantee, count]) => {
      const wrong = violations.filter((one) => one.guarantee === guarantee).length
      return `${wrong === 0 ? 'holds ' : 'BROKEN'}  ${guarantee.padEnd(36)} ${String(count).padStart(8)} checked, ${wrong} violations`
    }),
    '',
    violations.length === 0
      ? '0 violations'
      : `${violations.length} VIOLATIONS, those with the shortest history first:`,
  ]
  const shortest = violations.toSorted((a, b) => a.excerpt.length - b.excerpt.length)
  for (const { guarantee, text, excerpt } of shortest.slice(0, maxShown)) {
    lines.push('', `${guarantee}: ${text}`, ...excerpt.map((line) => `  ${line}`))
  }
  return lines.join('\n')
}
