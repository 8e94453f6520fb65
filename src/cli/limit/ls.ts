import { formatDuration } from '../../base/index.js'
import { type LimitState, limitStates, maxLimitsSearched, type ObservedLimit } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type Colour, type Column, namespaceColumn, pipedColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function limitLs(settings: Settings): Promise<void> {
  const state = settings.oneOf('state', ...limitStates)
  const limit = settings.wholeNumber('limit', 1, 10_000) ?? 50
  const only = { namespace: settings.name('namespace'), prefix: settings.text('prefix'), limit }
  const [limits, areMore] = await observe(settings, async ({ limits }) => {
    return [await limits.list({ ...only, ...(state && { states: [state] }) }), await limits.hasMore()] as const
  })
  printRows<'limit-ls'>(settings, limits, columns(limits))
  if (limits.length === 0) printMessage(state || only.prefix ? 'No limits found.' : 'No limit is in use.')
  if (limits.length === limit) printMessage(`Only the first ${limit} limits are shown. Use --limit to show more.`)
  else if (areMore)
    printMessage(`Only the first ${maxLimitsSearched} limits of each kind were searched, so there may be more.`)
}

const colourOfState: Partial<Record<LimitState, Colour>> = {
  full: 'yellow',
  used: 'green',
  free: 'dim',
  refilled: 'dim',
}

function columns(limits: readonly ObservedLimit[]): Column<ObservedLimit>[] {
  const number = (value: number | null) => (value === null ? '' : String(value))
  return [
    { title: 'NAME', value: ({ name }) => name },
    namespaceColumn(limits),
    { title: 'KIND', value: ({ kind }) => kind },
    { title: 'STATE', value: ({ state }) => state, colour: ({ state }) => colourOfState[state] },
    {
      title: 'IN USE',
      value: ({ inUse }) => inUse,
      shown: ({ inUse, max }) => number(inUse) + (max === null ? '' : ` of ${max}`),
    },
    ...pipedColumns<ObservedLimit>({ MAX: 'max' }),
    { title: 'HOLDERS', value: ({ holders }) => holders },
    {
      title: 'WAITERS',
      value: ({ waiting }) => waiting,
      colour: ({ waiting }) => (waiting ? 'yellow' : undefined),
    },
    { title: 'FOR', value: ({ since }) => since, shown: ({ forMs }) => (forMs === null ? '' : formatDuration(forMs)) },
    {
      title: 'REFILLS',
      value: ({ refilledAt }) => refilledAt,
      shown: ({ refilledInMs }) => (refilledInMs ? `in ${formatDuration(refilledInMs)}` : ''),
    },
    ...pipedColumns<ObservedLimit>({ KEY: 'key' }),
  ]
}
