// Prints the next ticks of cron rules, also around daylight saving changes, with the command line. Needs no database.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const holdfast = fileURLToPath(new URL('./cli/bin.js', import.meta.resolve('holdfast')))

const rules = [
  ['30 1 * * *', 'Europe/London', '2026-03-28'],
  ['0 9 * * FRI#L', 'Europe/London', '2026-05-01'],
  ['*/30 * * * *', 'America/New_York', '2026-11-01T05:00Z'],
] as const

for (const [rule, timezone, from] of rules) {
  console.log(`${rule} in ${timezone}`)
  const words = ['schedule', 'next', rule, '--timezone', timezone, '--from', from, '--count', '3', '--jsonl']
  for (const line of execFileSync(process.execPath, [holdfast, ...words], { encoding: 'utf8' })
    .trim()
    .split('\n')) {
    const { local, offset, note } = JSON.parse(line)
    console.log(`  ${local} ${offset}${note ? `, ${note}` : ''}`)
  }
}

// prints:
// 30 1 * * * in Europe/London
//   2026-03-28 01:30:00 +00:00
//   2026-03-29 02:00:00 +01:00, clock change: replaces 01:30
//   2026-03-30 01:30:00 +01:00
// 0 9 * * FRI#L in Europe/London
//   2026-05-29 09:00:00 +01:00
//   2026-06-26 09:00:00 +01:00
//   2026-07-31 09:00:00 +01:00
// */30 * * * * in America/New_York
//   2026-11-01 01:30:00 -04:00, first of two 01:30
//   2026-11-01 01:00:00 -05:00, second of two 01:00
//   2026-11-01 01:30:00 -05:00, second of two 01:30
