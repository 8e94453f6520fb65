import { addNoun, addVerb, type CliCommand, runs, runsAct } from '../command.js'

export function addLease(program: CliCommand): void {
  const lease = addNoun(program, 'lease', 'list, show and expire leases', [
    'holdfast lease ls',
    'holdfast lease show etl',
    'holdfast lease expire etl',
  ])
  addVerb(lease, 'ls', ['holdfast lease ls', 'holdfast lease ls --namespace billing --json'])
    .summary('list the leases')
    .description(
      'Lists the leased names with their holders, and the names that are blocked by a minimum hold. ' +
        'Covers all namespaces, unless --namespace is given.',
    )
    .action(runs(async () => (await import('./ls.js')).leaseLs))

  addVerb(lease, 'show', ['holdfast lease show etl', 'holdfast lease show --key 42'])
    .summary("show a lease's holder and expiry")
    .description('Shows who holds the lease on a name, for how long, and when the name becomes free.')
    .argument('<name>', 'the name')
    .keyOption()
    .action(runs(async () => (await import('./show.js')).leaseShow))

  addVerb(lease, 'expire', ['holdfast lease expire etl', 'holdfast lease expire --yes etl'])
    .summary('end a lease')
    .description(
      'Ends the lease or the minimum hold on a name. The name becomes free immediately. The holder is notified, and its guarded writes fail.',
    )
    .argument('<name>', 'the name')
    .keyOption()
    .yesOption()
    .action(runsAct('expire-lease'))
}
