import { addVerb, type CliCommand, runs } from '../command.js'
import { EnvOption } from '../options.js'

export function addGraph(program: CliCommand): void {
  addVerb(program, 'graph', ['holdfast graph', 'holdfast graph --format dot | dot -Tsvg > graph.svg'])
    .summary('show who waits for whom')
    .description(
      'Shows which instances, sessions and jobs are waiting for each other. Participants that block others come first.',
    )
    .addOption(new EnvOption('--format <format>', 'tree, json or dot (default: tree)').oneOf('tree', 'dot', 'json'))
    .action(runs(async () => (await import('./show.js')).showGraph))
}
