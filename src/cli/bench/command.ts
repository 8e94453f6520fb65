import type { Command } from 'commander'
import { addVerb, runs, yesOption } from '../command.js'
import { EnvOption } from '../options.js'

export function addBench(program: Command): void {
  addVerb(program, 'bench', ['holdfast bench', 'holdfast bench --seconds 5 --yes --json'])
    .summary('measure how fast Holdfast is on your database')
    .description(
      'Measures the speed of locks, leases, limits, idempotency keys and jobs on your database from this machine, and of plain SQL for comparison. ' +
        'Creates its own schema, holdfast_bench, and drops it at the end. Your tables are not touched. ' +
        'The benchmark keeps the server busy, so it asks for confirmation unless the database is on this machine.',
    )
    .addOption(new EnvOption('--seconds <number>', 'duration of each measurement in seconds (default: 1)'))
    .addOption(yesOption())
    .action(runs(async (settings) => (await import('./run.js')).bench(settings)))
}
