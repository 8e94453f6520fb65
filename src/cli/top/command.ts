import { addVerb, type CliCommand, runs } from '../command.js'

export function addTop(program: CliCommand): void {
  addVerb(program, 'top', [
    'holdfast top',
    'holdfast top --namespace billing --interval 500ms',
    'holdfast top --url eu=postgres://eu.example.com/app --url us=postgres://us.example.com/app',
    'holdfast top --once',
    'holdfast top --json',
    'holdfast top --jsonl --interval 1m >> overviews.jsonl',
  ])
    .summary('watch the fleet on the terminal')
    .description(
      'Shows instances, locks, leases, schedules, queues and recent failures, and refreshes the display. Press ? to see the keys. ' +
        'Covers all namespaces, unless --namespace is given. With several databases, lists all databases first. ' +
        'Without a terminal, prints one report. With --jsonl, prints one overview per line.',
    )
    .envOption('--interval <duration>', 'time between two refreshes (default: 2s)')
    .envOption('--once', 'print one report, then exit')
    .action(runs(async () => (await import('./run.js')).top))
}
