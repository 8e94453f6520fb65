// When a rule ticks, and what becomes of it when clocks change, by the command line. No database is needed.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const holdfast = fileURLToPath(new URL('../dist/cli/bin.js', import.meta.url))

for (const [rule, timezone, from] of [
  ['30 1 * * *', 'Europe/London', '2026-03-28'],
  ['0 9 * * FRI#L', 'Europe/London', '2026-05-01'],
  ['*/30 * * * *', 'America/New_York', '2026-11-01T05:00Z'],
]) {
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
