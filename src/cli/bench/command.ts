import type { Command } from 'commander'
import { addVerb, runs, yesOption } from '../command.js'
import { EnvOption } from '../options.js'

export function addBench(program: Command): void {
  addVerb(program, 'bench', ['holdfast bench', 'holdfast bench --seconds 5 --yes --json'])
    .summary('measure how fast Holdfast is on your database')
    .description(
      'Measures locks, leases, limits, once-only effects and jobs on your database from this machine, next to plain SQL. ' +
        'Uses its own schema, holdfast_bench, and drops it at the end; your tables are not touched. It keeps the server ' +
        'busy, so it asks for confirmation, unless the database is on this machine.',
    )
    .addOption(new EnvOption('--seconds <number>', 'duration of each measurement (default: 1)'))
    .addOption(yesOption())
    .action(runs(async (settings) => (await import('./run.js')).bench(settings)))
}
