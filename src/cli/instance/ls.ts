import { formatDuration } from '../../base/index.js'
import { type FleetInstance, Observer } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { type Colour, type Column, namespaceOf, printRows, toPrograms } from '../output.js'
import type { Settings } from '../settings.js'
import { type InstanceState, stateOf } from '../who.js'

export async function instanceLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const { rows: instances } = await withDatabase(settings, (database, schema) =>
    new Observer(database, schema).fleet.list({ namespace }),
  )
  const severalVersions = new Set(instances.filter(({ alive }) => alive).map(({ version }) => version)).size > 1
  printRows<'instance-ls'>(settings, instances, columns(instances, severalVersions))
  if (instances.length === 0) say('No instance is known.')
  if (severalVersions) say('Instances of several versions take part.')
}

const colourOfState = {
  alive: 'green',
  asked: 'yellow',
  draining: 'yellow',
  drained: 'dim',
  gone: 'red',
} as const satisfies Record<InstanceState, Colour>

function columns(instances: readonly FleetInstance[], severalVersions: boolean): Column<FleetInstance>[] {
  return [
    { title: 'INSTANCE', value: ({ id }) => id },
    {
      title: 'STATE',
      value: stateOf,
      shown: (instance) => (stateOf(instance) === 'asked' ? 'asked to drain' : stateOf(instance)),
      colour: (instance) => colourOfState[stateOf(instance)],
    },
    namespaceOf(instances),
    { title: 'HOST', value: ({ host }) => host },
    { title: 'PROCESS', value: ({ osPid }) => osPid },
    { title: 'HOLDS', value: ({ held }) => held },
    { title: 'WAITS', value: ({ waiting }) => waiting },
    { title: 'LEASES', value: ({ leased }) => leased },
    { title: 'LIVES', value: ({ lives }) => lives, shown: toPrograms },
    { title: 'OPEN FOR', value: ({ openedAt }) => openedAt, shown: ({ forMs }) => formatDuration(forMs) },
    {
      title: 'VERSION',
      value: ({ version }) => version,
      shown: severalVersions ? ({ version }) => version : toPrograms,
    },
    { title: 'SESSION', value: ({ pid }) => pid, shown: toPrograms },
    { title: 'POOLER', value: ({ pooler }) => pooler, shown: toPrograms },
    { title: 'NODE', value: ({ node }) => node, shown: toPrograms },
  ]
}
