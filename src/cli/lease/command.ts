import type { Command } from 'commander'
import { addNoun, withExamples, withNameArgument, withoutGlobalOptions } from '../command.js'
import { EnvOption, settingsOf } from '../options.js'

export function addLease(program: Command): void {
  const lease = addNoun(program, 'lease', 'see and expire leases')
  withExamples(lease, ['holdfast lease ls', 'holdfast lease show etl', 'holdfast lease expire etl'])
  const ls = lease
    .command('ls')
    .summary('list who has what by lease')
    .description('Lists who has what by lease, and what a hold keeps taken: in all namespaces, unless one is given.')
    .action(async (_options, self: Command) => (await import('./ls.js')).leaseLs(await settingsOf(self)))
  withExamples(ls, ['holdfast lease ls', 'holdfast lease ls --namespace billing --json'])

  const show = withNameArgument(
    lease
      .command('show')
      .summary('tell who has a name by lease, and until when')
      .description('Tells who has a name by lease, since when, and when it is free.'),
  ).action(async (name: string, _options, self: Command) =>
    (await import('./show.js')).leaseShow(await settingsOf(self), name),
  )
  withExamples(show, ['holdfast lease show etl', 'holdfast lease show --key 42'])

  const expire = withNameArgument(
    lease
      .command('expire')
      .summary('take a name from whoever leases it')
      .description(
        'Takes a name from whoever leases it, or ends its hold: it is free at once. The holder is told, and fenced.',
      ),
  )
    .addOption(new EnvOption('--yes', 'do not ask'))
    .action(async (name: string, _options, self: Command) =>
      (await import('../act.js')).actOnKey(await settingsOf(self), 'expire-lease', name),
    )
  withExamples(expire, ['holdfast lease expire etl', 'holdfast lease expire --yes etl'])
  withoutGlobalOptions(lease)
}
