import { called, type ObservedLock, Observer, whoIs } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { type Column, namespaceOf, printRows, toPrograms } from '../output.js'
import type { Settings } from '../settings.js'
import { forHowLong } from '../who.js'

export async function lockLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const [locks, leases] = await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    return [await observer.locks({ namespace }), (await observer.leases({ namespace })).length] as const
  })
  printRows<'lock-ls'>(settings, locks, columns(locks))
  if (locks.length === 0) say('Nobody holds a lock.')
  if (leases > 0) say(`${leases} ${leases === 1 ? 'name is' : 'names are'} leased: \`holdfast lease ls\` lists them.`)
}

function columns(locks: readonly ObservedLock[]): Column<ObservedLock>[] {
  return [
    { title: 'NAME', value: ({ label }) => label, shown: called },
    namespaceOf(locks),
    {
      title: 'STATE',
      value: ({ granted }) => (granted ? 'holds' : 'waits'),
      colour: ({ granted }) => (granted ? 'green' : 'yellow'),
    },
    { title: 'MODE', value: ({ mode }) => mode },
    { title: 'FOR', value: ({ since }) => since, shown: forHowLong },
    {
      title: 'WHO',
      value: (lock) => lock.instance ?? lock.application ?? lock.user,
      shown: (lock) => whoIs(lock, lock.pid) + (lock.requests > 1 ? ` (${lock.requests} calls)` : ''),
    },
    { title: 'HOST', value: ({ host }) => host, shown: toPrograms },
    { title: 'PROCESS', value: ({ osPid }) => osPid, shown: toPrograms },
    { title: 'SESSION', value: ({ pid }) => pid, shown: toPrograms },
    { title: 'FENCE', value: ({ fence }) => fence, shown: toPrograms },
    { title: 'BLOCKED BY', value: ({ blockedBy }) => blockedBy.join(','), shown: toPrograms },
    { title: 'KEY', value: ({ key }) => key, shown: toPrograms },
  ]
}
