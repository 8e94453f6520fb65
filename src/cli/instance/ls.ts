import { formatDuration } from '../../base/index.js'
import type { FleetInstance } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type InstanceState, stateOf } from '../labels.js'
import {
  type Colour,
  type Column,
  namespaceColumn,
  onlyWhenPiped,
  pipedColumns,
  plainColumns,
  printRows,
} from '../output.js'
import type { Settings } from '../settings.js'

export async function instanceLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const sinceMs = settings.durationMs('since')
  const { rows } = await observe(settings, (observer) => observer.fleet.list({ namespace }))
  const instances = rows.filter(({ forMs }) => sinceMs === undefined || forMs <= sinceMs)
  const severalVersions = new Set(instances.filter(({ alive }) => alive).map(({ version }) => version)).size > 1
  printRows<'instance-ls'>(settings, instances, columns(instances, severalVersions))
  if (instances.length === 0)
    printMessage(sinceMs === undefined ? 'There are no instances.' : 'No instance has opened since then.')
  if (severalVersions) printMessage('The instances run different versions of Holdfast.')
}

const colourOfState: Record<InstanceState, Colour> = {
  alive: 'green',
  'drain-requested': 'yellow',
  draining: 'yellow',
  drained: 'dim',
  lost: 'red',
}

function columns(instances: readonly FleetInstance[], severalVersions: boolean): Column<FleetInstance>[] {
  return [
    { title: 'NAME', value: ({ name }) => name },
    {
      title: 'STATE',
      value: stateOf,
      shown: (instance) => (stateOf(instance) === 'drain-requested' ? 'asked to drain' : stateOf(instance)),
      colour: (instance) => colourOfState[stateOf(instance)],
    },
    namespaceColumn(instances),
    ...plainColumns<FleetInstance>({ HOLDS: 'held', WAITS: 'waiting', LEASES: 'leased' }),
    ...pipedColumns<FleetInstance>({ RECONNECTS: 'reconnects' }),
    { title: 'OPEN FOR', value: ({ openedAt }) => openedAt, shown: ({ forMs }) => formatDuration(forMs) },
    ...plainColumns<FleetInstance>({ ID: 'id' }),
    ...pipedColumns<FleetInstance>({ HOST: 'host', PROCESS: 'osPid' }),
    {
      title: 'VERSION',
      value: ({ version }) => version,
      shown: severalVersions ? ({ version }) => version : onlyWhenPiped,
    },
    ...pipedColumns<FleetInstance>({ SESSION: 'pid', POOLER: 'pooler', NODE: 'node' }),
  ]
}
