import { addVerb, type CliCommand, runs } from '../command.js'

export function addGraph(program: CliCommand): void {
  addVerb(program, 'graph', ['holdfast graph', 'holdfast graph --dot | dot -Tsvg > graph.svg'])
    .summary('show who waits for whom')
    .description(
      'Shows which instances, sessions and jobs are waiting for each other. Participants that block others come first, or last if the graph does not fit on the screen.',
    )
    .envOption('--dot', 'print the graph in the DOT language of Graphviz')
    .action(runs(async () => (await import('./show.js')).showGraph))
}
