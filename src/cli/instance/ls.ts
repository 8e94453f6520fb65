import { formatDuration } from '../../base/index.js'
import { type ObservedInstance, Observer } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { type Column, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function instanceLs(settings: Settings): Promise<void> {
  const all = await withDatabase(settings, (database, schema) => new Observer(database, schema).instances())
  const namespace = settings.text('namespace')
  const instances = all.filter((instance) => namespace === undefined || instance.namespace === namespace)
  printRows(settings, instances, columns)
  if (instances.length === 0) say('No instance is known.')
}

const columns: Column<ObservedInstance>[] = [
  { title: 'INSTANCE', value: ({ id }) => id },
  {
    title: 'STATE',
    value: ({ alive }) => (alive ? 'alive' : 'gone'),
    colour: ({ alive }) => (alive ? 'green' : 'red'),
  },
  { title: 'NAMESPACE', value: ({ namespace }) => namespace },
  { title: 'HOST', value: ({ host }) => host },
  { title: 'PROCESS', value: ({ osPid }) => osPid },
  { title: 'HOLDS', value: ({ held }) => held },
  { title: 'WAITS', value: ({ waiting }) => waiting },
  { title: 'LEASES', value: ({ leased }) => leased },
  { title: 'LIVES', value: ({ lives }) => lives, shown: null },
  { title: 'OPEN FOR', value: ({ openedAt }) => openedAt, shown: ({ forMs }) => formatDuration(forMs) },
  { title: 'VERSION', value: ({ version }) => version, shown: null },
  { title: 'SESSION', value: ({ pid }) => pid, shown: null },
  { title: 'POOLER', value: ({ pooler }) => pooler, shown: null },
]
