import type { Command } from 'commander'
import { withExamples } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addGraph(program: Command): void {
  const graph = program
    .command('graph')
    .summary('show who waits for whom')
    .description('Shows who waits for whom, whoever blocks the others first.')
    .addOption(new EnvOption('--format <format>', 'tree, json or dot (default: tree)').oneOf('tree', 'dot', 'json'))
    .action(async (_options, self: Command) => (await import('./show.js')).showGraph(await settingsOf(self)))
  withExamples(graph, ['holdfast graph', 'holdfast graph --format dot | dot -Tsvg > graph.svg'])
}
