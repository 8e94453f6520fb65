import { addVerb, type CliCommand, runs } from '../command.js'

export function addBench(program: CliCommand): void {
  addVerb(program, 'bench', ['holdfast bench', 'holdfast bench --seconds 5 --yes --json'])
    .summary('measure how fast Holdfast is on your database')
    .description(
      'Measures the speed of locks, leases, limits, idempotency keys and jobs on your database from this machine, with plain SQL as a baseline. ' +
        'Creates its own schema, holdfast_bench, and drops it before it exits. Your tables are not touched. ' +
        'The benchmark keeps the server busy, so it asks for confirmation unless the database is on this machine.',
    )
    .envOption('--seconds <number>', 'duration of each measurement in seconds (default: 1)')
    .yesOption()
    .action(runs(async () => (await import('./run.js')).bench))
}
