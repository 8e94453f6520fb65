import { addNoun, addVerb, type CliCommand, runs, runsAct } from '../command.js'

export function addLimit(program: CliCommand): void {
  const limit = addNoun(program, 'limit', 'list, show and reset concurrency limits and rate limits', [
    'holdfast limit ls',
    'holdfast limit show export:42',
    'holdfast limit reset export:42',
  ])
  addVerb(limit, 'ls', [
    'holdfast limit ls',
    'holdfast limit ls --state full',
    'holdfast limit ls --prefix export: --json',
  ])
    .summary('list the limits')
    .description(
      'Lists the concurrency limits that are in use and the rate limits that are partly used. ' +
        'Limits with waiters come first, then the fullest limits, then the rate limits that take longest to recover. ' +
        'Covers all namespaces, unless --namespace is given. Reads the first 20,000 limits of each kind.',
    )
    .envOption('--prefix <text>', 'list only names that begin with this text')
    .stateOption('limits', 'full', 'used', 'free', 'spent', 'refilled')
    .envOption('--limit <number>', 'maximum number of limits (default: 50)')
    .action(runs(async () => (await import('./ls.js')).limitLs))

  addVerb(limit, 'show', ['holdfast limit show export:42', 'holdfast limit show export:42 --json'])
    .summary("show a limit's holders, waiters and rate")
    .description(
      "Shows a limit's holders, its waiters in queue order, and the time until the full burst is available again.",
    )
    .argument('<name>', 'the name')
    .envOption('--limit <number>', 'maximum number of holders, and of waiters, to show (default: 100)')
    .action(runs(async () => (await import('./show.js')).limitShow))

  addVerb(limit, 'reset', ['holdfast limit reset export:42', 'holdfast limit reset --yes api:key'])
    .summary("revoke all of a limit's permits, and reset its rate limit")
    .description(
      "Revokes all of a limit's permits, notifies their holders, and resets the rate limit, as if nothing were in use or spent. " +
        'Calls that are waiting for a permit are then admitted.',
    )
    .argument('<name>', 'the name')
    .yesOption()
    .action(runsAct('reset-limit'))
}
