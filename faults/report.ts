// Formats a run's outcome for people.
import type { Outcome } from './cluster.ts'
import type { Load } from './load.ts'
import type { Pause } from './upgrade.ts'

const maxShown = 5

export function formatReport({
  seed,
  seconds,
  injected,
  pause,
  load,
  checked,
  violations,
  counts,
  linearized,
}: Outcome) {
  const list = (object: Record<string, number>) =>
    Object.entries(object)
      .map(([what, count]) => `${count} × ${what}`)
      .join(', ')
  const lines = [
    `seed ${seed}, ${seconds} s`,
    `faults survived: ${Object.values(injected).reduce((sum, count) => sum + count, 0)} (${list(injected)})`,
    ...(pause ? [formatPause(pause)] : []),
    ...(load ? [formatLoad(load)] : []),
    `history: ${list(counts)}`,
    `compared with a sequential lock: ${linearized.operations} operations on ${linearized.names} names in ${Math.round(linearized.tookMs)} ms`,
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

function formatLoad({ statementsPerSecond, connections }: Load) {
  return `load: ${Math.round(statementsPerSecond)} statements/s, at most ${connections} connections`
}

function formatPause({ from, to, redirected, enqueued, locked, completed }: Pause) {
  return `upgrade of PostgreSQL from ${from} to ${to}: redirected after ${redirected} s, a job enqueued after ${enqueued} s, a lock granted after ${locked} s, a job completed after ${completed} s`
}
