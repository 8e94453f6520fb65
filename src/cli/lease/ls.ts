import { formatDuration } from '../../base/index.js'
import { nameLabel, type ObservedLease, participantLabel } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { type Column, namespaceColumn, pipedColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function leaseLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const leases = await observe(settings, (observer) => observer.leases({ namespace }))
  printRows<'lease-ls'>(settings, leases, columns(leases))
  if (leases.length === 0) printMessage('No name is leased.')
}

function columns(leases: readonly ObservedLease[]): Column<ObservedLease>[] {
  return [
    { title: 'NAME', value: ({ label }) => label, shown: nameLabel },
    namespaceColumn(leases),
    {
      title: 'STATE',
      value: ({ held }) => (held ? 'leased' : 'min-hold'),
      colour: ({ held }) => (held ? 'green' : 'dim'),
    },
    { title: 'FOR', value: ({ since }) => since, shown: ({ forMs }) => formatDuration(forMs) },
    {
      title: 'EXPIRES IN',
      value: ({ expiresInMs }) => expiresInMs,
      shown: ({ expiresInMs }) => formatDuration(expiresInMs),
    },
    { title: 'INSTANCE', value: (lease) => participantLabel(lease) },
    ...pipedColumns<ObservedLease>({
      'INSTANCE ID': 'instance',
      HOST: 'host',
      PROCESS: 'osPid',
      FENCE: 'fence',
      'HAS WAITERS': 'hasWaiters',
      KEY: 'key',
    }),
  ]
}
