import type { Command } from 'commander'
import { withExamples } from '../command.js'

export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .summary('print a script that completes words in a shell')
    .description(
      'Prints a script for bash, zsh or fish, which completes nouns, verbs, options and their values, and the names ' +
        'of locks, queues and the like from the database.',
    )
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) => (await import('./scripts.js')).printScript(shell))
  withExamples(completion, [
    'source <(holdfast completion bash)',
    'source <(holdfast completion zsh)',
    'holdfast completion fish | source',
  ])
  // What the scripts ask: the words after `holdfast`, the last one as far as it was typed.
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .action(async (words: string[]) => (await import('./complete.js')).printCandidates(program, words))
}
