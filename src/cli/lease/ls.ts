import { formatDuration } from '../../base/index.js'
import { called, type ObservedLease, Observer, whoIs } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { type Column, namespaceOf, printRows, toPrograms } from '../output.js'
import type { Settings } from '../settings.js'

export async function leaseLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const leases = await withDatabase(settings, (database, schema) =>
    new Observer(database, schema).leases({ namespace }),
  )
  printRows<'lease-ls'>(settings, leases, columns(leases))
  if (leases.length === 0) say('Nobody has a lease.')
}

function columns(leases: readonly ObservedLease[]): Column<ObservedLease>[] {
  return [
    { title: 'NAME', value: ({ label }) => label, shown: called },
    namespaceOf(leases),
    {
      title: 'STATE',
      value: ({ held }) => (held ? 'leased' : 'kept'),
      colour: ({ held }) => (held ? 'green' : 'dim'),
    },
    { title: 'FOR', value: ({ since }) => since, shown: ({ forMs }) => formatDuration(forMs) },
    {
      title: 'EXPIRES IN',
      value: ({ expiresInMs }) => expiresInMs,
      shown: ({ expiresInMs }) => formatDuration(expiresInMs),
    },
    { title: 'WHO', value: ({ instance }) => instance, shown: (lease) => whoIs(lease) },
    { title: 'HOST', value: ({ host }) => host, shown: toPrograms },
    { title: 'PROCESS', value: ({ osPid }) => osPid, shown: toPrograms },
    { title: 'FENCE', value: ({ fence }) => fence, shown: toPrograms },
    { title: 'WANTED', value: ({ wanted }) => wanted, shown: toPrograms },
    { title: 'KEY', value: ({ key }) => key, shown: toPrograms },
  ]
}
