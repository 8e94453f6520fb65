import { addVerb, type CliCommand } from '../command.js'

export function addCompletion(program: CliCommand): void {
  addVerb(program, 'completion', [
    'source <(holdfast completion bash)',
    'source <(holdfast completion zsh)',
    'holdfast completion fish | source',
  ])
    .summary('print a completion script for your shell')
    .description(
      'Prints a completion script for bash, zsh or fish. ' +
        'The script completes commands, options and their values, and the names of locks, queues and other objects in the database.',
    )
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) => (await import('./scripts.js')).printScript(shell))
  // The shell scripts pass all words after `holdfast`. The last word may be incomplete.
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .action(async (words: string[]) => (await import('./complete.js')).printCandidates(program, words))
}
