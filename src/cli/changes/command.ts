import { addVerb, type CliCommand, runs } from '../command.js'

export function addChanges(program: CliCommand): void {
  addVerb(program, 'changes', ['holdfast changes', 'holdfast changes --since 12h', 'holdfast changes --jsonl'])
    .summary('list what has changed')
    .description(
      'Lists what has changed, latest first: instances that joined, closed, were drained or were lost, deployments, new leaders, ' +
        'schedules and queues that were added, changed or paused, failed jobs and runs, and acts of the audit log. ' +
        'Covers all namespaces, unless --namespace is given.',
    )
    .envOption('--since <duration>', 'how far to look back, at most 2d (default: 1h)')
    .envOption('--limit <number>', 'maximum number of changes (default: 50)')
    .action(runs(async () => (await import('./list.js')).listChanges))
}
