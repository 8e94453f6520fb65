import type { Command } from 'commander'
import { addNoun, withExamples, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addLimit(program: Command): void {
  const limit = addNoun(program, 'limit', 'see and reset limits and rates')
  withExamples(limit, ['holdfast limit ls', 'holdfast limit show export:42', 'holdfast limit reset export:42'])
  const ls = limit
    .command('ls')
    .summary('list what is limited')
    .description(
      'Lists the limits of which something is in use, and the rates of which something is spent: first those for which ' +
        'others wait, then the fullest, then the rates that rest longest. In all namespaces, unless one is given. It looks ' +
        'through the first 20,000 of each.',
    )
    .addOption(new EnvOption('--prefix <text>', 'only those whose names begin so'))
    .addOption(
      new EnvOption('--state <state>', 'full, used, free, spent or refilled').oneOf(
        'full',
        'used',
        'free',
        'spent',
        'refilled',
      ),
    )
    .addOption(new EnvOption('--limit <number>', 'how many at most (default: 50)'))
    .action(async (_options, self: Command) => (await import('./ls.js')).limitLs(await settingsOf(self)))
  withExamples(ls, ['holdfast limit ls', 'holdfast limit ls --state full', 'holdfast limit ls --prefix export: --json'])

  const show = limit
    .command('show')
    .summary('tell who has permits of a name, who waits, and when its rate is refilled')
    .description('Tells who has permits of a name, who waits for one in which order, and when its rate is refilled.')
    .argument('<name>', 'the name')
    .addOption(new EnvOption('--limit <number>', 'how many holders and waiters at most (default: 100)'))
    .action(async (name: string, _options, self: Command) =>
      (await import('./show.js')).limitShow(await settingsOf(self), name),
    )
  withExamples(show, ['holdfast limit show export:42', 'holdfast limit show export:42 --json'])

  const reset = limit
    .command('reset')
    .summary('take all permits of a name away, and refill its rate')
    .description(
      'Takes all permits of a name from whoever holds them, who are told, and refills its rate: as if nothing were in use ' +
        'or spent. Those who wait are let in.',
    )
    .argument('<name>', 'the name')
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnName(await settingsOf(self), 'reset-limit', name),
    )
  withExamples(reset, ['holdfast limit reset export:42', 'holdfast limit reset --yes api:key'])
  withoutGlobalOptions(limit)
}
