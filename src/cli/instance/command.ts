import type { Command } from 'commander'
import { addNoun, withExamples, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addInstance(program: Command): void {
  const instance = addNoun(program, 'instance', 'see and drain the running processes that opened Holdfast')
  withExamples(instance, [
    'holdfast instance ls',
    'holdfast instance show 4f1c09aa52be',
    'holdfast instance drain --wait 4f1c09aa52be',
  ])
  const ls = instance
    .command('ls')
    .summary('list the instances')
    .description('Lists the instances, and what they hold and wait for.')
    .action(async (_options, self: Command) => (await import('./ls.js')).instanceLs(await settingsOf(self)))
  withExamples(ls, ['holdfast instance ls', 'holdfast instance ls --json'])

  const show = instance
    .command('show')
    .summary('tell all about one instance')
    .description('Tells how an instance is, and what it holds, waits for and runs.')
    .argument('<id>', 'its id, as `holdfast instance ls` shows it')
    .action(async (id: string, _options, self: Command) =>
      (await import('./show.js')).instanceShow(await settingsOf(self), id),
    )
  withExamples(show, ['holdfast instance show 4f1c09aa52be', 'holdfast instance show 4f1c09aa52be --json'])

  const drain = instance
    .command('drain')
    .summary('have an instance take no new work')
    .description(
      'Asks an instance to take no new work and to let what runs come to its end; what takes longer is told to stop, and goes ' +
        'to the others. For good: its process lives on until its own code ends it, and `holdfast work` ends then.',
    )
    .argument('<id>', 'its id, as `holdfast instance ls` shows it')
    .addOption(new EnvOption('--within <duration>', 'how long what runs may take (default: 30s)'))
    .addOption(new EnvOption('--wait', 'until it is drained', 'HOLDFAST_WAIT_DRAINED'))
    .action(async (id: string, _options, self: Command) =>
      (await import('./drain.js')).instanceDrain(await settingsOf(self), id),
    )
  withExamples(drain, [
    'holdfast instance drain 4f1c09aa52be',
    'holdfast instance drain --wait --within 5m 4f1c09aa52be',
  ])
  withoutGlobalOptions(instance)
}
