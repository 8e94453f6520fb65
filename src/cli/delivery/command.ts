import { addNoun, addVerb, type CliCommand, runs, runsAct } from '../command.js'

export function addDelivery(program: CliCommand): void {
  const delivery = addNoun(program, 'delivery', 'list, show and forget deliveries (idempotency keys)', [
    'holdfast delivery ls --state failed',
    'holdfast delivery show stripe:evt_42',
    'holdfast delivery forget stripe:evt_42',
  ])
  addVerb(delivery, 'ls', [
    'holdfast delivery ls',
    'holdfast delivery ls --state in-flight --since 1h',
    'holdfast delivery ls --prefix stripe: --limit 500 --jsonl',
  ])
    .summary('list deliveries')
    .description(
      'Lists deliveries, latest first, or in key order if --prefix is given. ' +
        'Covers all namespaces, unless --namespace is given. ' +
        'With --state, --since or --namespace, searches only the latest 20,000 deliveries, or the first 20,000 deliveries with the prefix.',
    )
    .envOption('--prefix <text>', 'list only keys that begin with this text')
    .stateOption('deliveries', 'in-flight', 'lost', 'done', 'failed')
    .sinceOption('deliveries that started')
    .envOption('--limit <number>', 'maximum number of deliveries (default: 50)')
    .action(runs(async () => (await import('./ls.js')).deliveryLs))

  addVerb(delivery, 'show', [
    'holdfast delivery show stripe:evt_42',
    'holdfast delivery show stripe:evt_42 --json | jq .value',
  ])
    .summary('show a delivery and its result')
    .description(
      "Shows a delivery's state, the instance that ran it, and up to 64 KiB of the result that duplicates receive.",
    )
    .argument('<key>', 'key of the delivery')
    .action(runs(async () => (await import('./show.js')).deliveryShow))

  addVerb(delivery, 'forget', [
    'holdfast delivery forget stripe:evt_42',
    'holdfast delivery forget --yes stripe:evt_42',
  ])
    .summary('delete a delivery, so that its key can run again')
    .description(
      'Deletes a delivery and its result, so that the next delivery with this key runs again. Fails while the delivery is running.',
    )
    .argument('<key>', 'key of the delivery')
    .yesOption()
    .action(runsAct('forget-delivery'))
}
