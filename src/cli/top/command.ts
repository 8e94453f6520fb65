import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addTop(program: Command): void {
  const top = program
    .command('top')
    .summary('watch the fleet on the terminal')
    .description(
      'Shows instances, locks, leases, schedules, queues and recent trouble at a glance, and keeps showing them; ? tells the ' +
        'keys. In all namespaces, unless one is given. Without a terminal it prints one report, with --jsonl one overview a line.',
    )
    .addOption(new EnvOption('--interval <duration>', 'how long to wait between two looks (default: 2s)'))
    .addOption(new EnvOption('--once', 'print one report, and no more'))
    .action(async (_options, self: Command) => (await import('./run.js')).top(await settingsOf(self)))
  withExamples(top, [
    'holdfast top',
    'holdfast top --namespace billing --interval 500ms',
    'holdfast top --once',
    'holdfast top --json',
    'holdfast top --jsonl --interval 1m >> overviews.jsonl',
  ])
}
