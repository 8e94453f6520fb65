import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addBench(program: Command): void {
  const bench = program
    .command('bench')
    .summary('measure what your database does for Holdfast from here')
    .description(
      'Measures locks, leases, limits, effects and jobs on your database from this machine, beside plain SQL. It works in ' +
        'a schema of its own, holdfast_bench, which it drops at the end; your tables are not touched. While it runs it ' +
        'keeps the server busy, so it asks before, unless the database is on this machine.',
    )
    .addOption(new EnvOption('--seconds <number>', 'how long each measure takes (default: 1)'))
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (_options, self: Command) => (await import('./run.js')).bench(await settingsOf(self)))
  withExamples(bench, ['holdfast bench', 'holdfast bench --seconds 5 --yes --json'])
}
