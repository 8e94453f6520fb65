import type { Command } from 'commander'
import { addNoun, addVerb, keyOption, runs, yesOption } from '../command.js'

export function addLease(program: Command): void {
  const lease = addNoun(program, 'lease', 'list, show and expire leases', [
    'holdfast lease ls',
    'holdfast lease show etl',
    'holdfast lease expire etl',
  ])
  addVerb(lease, 'ls', ['holdfast lease ls', 'holdfast lease ls --namespace billing --json'])
    .summary('list the leases')
    .description(
      'Lists the leased names with their holders, and the names that a minimum hold keeps taken. Covers all namespaces, ' +
        'unless --namespace is given.',
    )
    .action(runs(async (settings) => (await import('./ls.js')).leaseLs(settings)))

  addVerb(lease, 'show', ['holdfast lease show etl', 'holdfast lease show --key 42'])
    .summary('show who holds a name by lease, and until when')
    .description('Shows who holds a name by lease, since when, and when the name becomes free.')
    .argument('<name>', 'the name')
    .addOption(keyOption())
    .action(runs(async (settings, name: string) => (await import('./show.js')).leaseShow(settings, name)))

  addVerb(lease, 'expire', ['holdfast lease expire etl', 'holdfast lease expire --yes etl'])
    .summary('end a lease')
    .description(
      'Ends the lease of a name, or its minimum hold. The name is free immediately. The holder is notified and fenced off.',
    )
    .argument('<name>', 'the name')
    .addOption(keyOption())
    .addOption(yesOption())
    .action(
      runs(async (settings, name: string) => (await import('../act.js')).actOnKey(settings, 'expire-lease', name)),
    )
}
