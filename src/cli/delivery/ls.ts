import { formatDuration } from '../../base/index.js'
import { type DeliveryState, deliveryStates, type ObservedDelivery, participantLabel } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type Colour, type Column, namespaceColumn, pipedColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function deliveryLs(settings: Settings): Promise<void> {
  const state = settings.oneOf('state', ...deliveryStates)
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const [namespace, prefix] = [settings.name('namespace'), settings.text('prefix')]
  const only = { namespace, prefix, limit, states: state && [state], sinceMs: settings.durationMs('since') }
  const { rows, next, searchedRows } = await observe(settings, (observer) => observer.deliveries.search(only))
  printRows<'delivery-ls'>(settings, rows, columns(rows))
  if (rows.length === 0) printMessage('No deliveries found.')
  if (next !== null && searchedRows === null)
    printMessage(`Only the first ${limit} deliveries are shown. Use --limit to show more.`)
  if (searchedRows !== null)
    printMessage(`Only the ${prefix === undefined ? 'latest' : 'first'} ${searchedRows} deliveries were searched.`)
}

const colourOfState: Record<DeliveryState, Colour> = { 'in-flight': 'green', lost: 'red', done: 'dim', failed: 'red' }

function columns(deliveries: readonly ObservedDelivery[]): Column<ObservedDelivery>[] {
  return [
    { title: 'KEY', value: ({ key }) => key },
    namespaceColumn(deliveries),
    { title: 'STATE', value: ({ state }) => state, colour: ({ state }) => colourOfState[state] },
    {
      title: 'WHEN',
      value: ({ finishedAt, startedAt }) => finishedAt ?? startedAt,
      shown: ({ finishedAt, forMs }) => (finishedAt ? `${formatDuration(forMs)} ago` : `for ${formatDuration(forMs)}`),
    },
    { title: 'INSTANCE', value: (delivery) => participantLabel(delivery) },
    ...pipedColumns<ObservedDelivery>({ 'INSTANCE ID': 'instance', HOST: 'host', PROCESS: 'osPid', FENCE: 'fence' }),
    ...pipedColumns<ObservedDelivery>({ STARTED: 'startedAt', EXPIRES: 'expiresAt' }),
  ]
}
