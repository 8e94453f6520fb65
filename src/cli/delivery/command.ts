import type { Command } from 'commander'
import { addNoun, withExamples, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addDelivery(program: Command): void {
  const delivery = addNoun(program, 'delivery', 'see and forget deliveries that are run once')
  withExamples(delivery, [
    'holdfast delivery ls --state failed',
    'holdfast delivery show stripe:evt_42',
    'holdfast delivery forget stripe:evt_42',
  ])
  const ls = delivery
    .command('ls')
    .summary('list deliveries')
    .description(
      'Lists deliveries, the latest first, in all namespaces unless one is given; with a prefix in the order of their keys. ' +
        'For a state or a namespace it looks through the last 20,000, or the first of the prefix.',
    )
    .addOption(new EnvOption('--prefix <text>', 'only those whose keys begin so'))
    .addOption(
      new EnvOption('--state <state>', 'in-flight, lost, done or failed').oneOf('in-flight', 'lost', 'done', 'failed'),
    )
    .addOption(new EnvOption('--limit <number>', 'how many at most (default: 50)'))
    .action(async (_options, self: Command) => (await import('./ls.js')).deliveryLs(await settingsOf(self)))
  withExamples(ls, [
    'holdfast delivery ls',
    'holdfast delivery ls --state in-flight',
    'holdfast delivery ls --prefix stripe: --limit 500 --jsonl',
  ])

  const show = delivery
    .command('show')
    .summary('tell all about one delivery, with its answer')
    .description('Tells where a delivery is, who ran it, and the answer that its duplicates get, up to 64 KiB of it.')
    .argument('<key>', 'its key')
    .action(async (key: string, _options, self: Command) =>
      (await import('./show.js')).deliveryShow(await settingsOf(self), key),
    )
  withExamples(show, [
    'holdfast delivery show stripe:evt_42',
    'holdfast delivery show stripe:evt_42 --json | jq .value',
  ])

  const forget = delivery
    .command('forget')
    .summary('let a delivery be run again')
    .description(
      'Forgets a delivery and its answer, so that the next one with its key is run again. Not while it is being run.',
    )
    .argument('<key>', 'its key')
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (key: string, _options, self: Command) =>
      (await import('../act.js')).forgetDelivery(await settingsOf(self), key),
    )
  withExamples(forget, ['holdfast delivery forget stripe:evt_42', 'holdfast delivery forget --yes stripe:evt_42'])
  withoutGlobalOptions(delivery)
}
