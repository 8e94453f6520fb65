import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addDoctor(program: Command): void {
  const doctor = program
    .command('doctor')
    .summary('see what is wrong, and how to fix it')
    .description(
      'Looks at the way to the database, its settings, the schema and the fleet, and says what is wrong, why it matters, and what ' +
        'exactly fixes it. Changes nothing without --fix. Exits with 3 when something is wrong or risky; notes are allowed.',
    )
    .addOption(new EnvOption('--fix', 'fix what can be fixed without harm; says what, and asks'))
    .addOption(new EnvOption('--yes', 'do not ask'))
    .addOption(
      new EnvOption('--patience <duration>', 'what lasts longer is told: transactions, pauses, waits (default: 10m)'),
    )
    .action(async (_options, self: Command) => (await import('./examine.js')).doctor(await settingsOf(self)))
  withExamples(doctor, ['holdfast doctor', 'holdfast doctor --fix', 'holdfast doctor --json --patience 1h'])
}
