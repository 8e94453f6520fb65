import type { Command } from 'commander'
import { addVerb, runs, yesOption } from '../command.js'
import { EnvOption } from '../options.js'

export function addDoctor(program: Command): void {
  addVerb(program, 'doctor', ['holdfast doctor', 'holdfast doctor --fix', 'holdfast doctor --json --patience 1h'])
    .summary('show what is wrong, and how to fix it')
    .description(
      'Checks the connection to the database, its settings, the schema and the fleet. ' +
        'Shows each problem, why the problem matters, and the exact fix. Changes nothing without --fix. ' +
        'Exits with 3 if something is wrong or risky. Notes do not affect the exit code.',
    )
    .addOption(new EnvOption('--fix', 'apply the harmless fixes after a confirmation'))
    .addOption(yesOption())
    .addOption(
      new EnvOption(
        '--patience <duration>',
        'report transactions, pauses and waits that last longer than this (default: 10m)',
      ),
    )
    .action(runs(async (settings) => (await import('./examine.js')).doctor(settings)))
}
