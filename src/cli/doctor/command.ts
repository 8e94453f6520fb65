import { addVerb, type CliCommand, runs } from '../command.js'

export function addDoctor(program: CliCommand): void {
  addVerb(program, 'doctor', ['holdfast doctor', 'holdfast doctor --fix', 'holdfast doctor --json --patience 1h'])
    .summary('show what is wrong, and how to fix it')
    .description(
      'Checks the connection to the database, its settings, the schema and the fleet. ' +
        'Shows each problem, why the problem matters, and the exact fix. Changes nothing without --fix. Ends with a summary of the configuration and of the fleet. ' +
        'Exits with status 3 if something is wrong or risky. Notes do not affect the exit code.',
    )
    .envOption('--fix', 'apply the harmless fixes after a confirmation')
    .yesOption()
    .envOption(
      '--patience <duration>',
      'report transactions, pauses and waits that last longer than this (default: 10m, and 30s for jobs without a worker)',
    )
    .action(runs(async () => (await import('./examine.js')).doctor))
}
