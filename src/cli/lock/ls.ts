import { nameLabel, type ObservedLock, participantLabel } from '../../observe/index.js'
import { observe } from '../connect.js'
import { printMessage } from '../failure.js'
import { durationLabel } from '../labels.js'
import { type Column, namespaceColumn, onlyWhenPiped, pipedColumns, printRows } from '../output.js'
import type { Settings } from '../settings.js'

export async function lockLs(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const [locks, leases] = await observe(settings, async (observer) => {
    return [await observer.locks({ namespace }), (await observer.leases({ namespace })).length] as const
  })
  printRows<'lock-ls'>(settings, locks, columns(locks))
  if (locks.length === 0) printMessage('No name is locked.')
  if (leases > 0)
    printMessage(`${leases} ${leases === 1 ? 'name is' : 'names are'} leased. Run \`holdfast lease ls\` to list them.`)
}

function columns(locks: readonly ObservedLock[]): Column<ObservedLock>[] {
  const held = new Set(locks.filter(({ granted }) => granted).map(({ key }) => key))
  const waiters = new Map<string, number>()
  for (const { key, granted, requests } of locks) if (!granted) waiters.set(key, (waiters.get(key) ?? 0) + requests)
  const waitersOf = ({ key, granted }: ObservedLock) => (granted ? (waiters.get(key) ?? 0) : null)
  return [
    {
      title: 'NAME',
      value: ({ label }) => label,
      // A waiter's row is directly below the rows of the holders.
      shown: (lock) => (lock.granted || !held.has(lock.key) ? nameLabel(lock) : '└─'),
    },
    namespaceColumn(locks),
    {
      title: 'STATE',
      value: ({ granted }) => (granted ? 'holds' : 'waits'),
      colour: ({ granted }) => (granted ? 'green' : 'yellow'),
    },
    { title: 'MODE', value: ({ mode }) => mode },
    {
      title: 'WAITERS',
      value: waitersOf,
      shown: (lock) => String(waitersOf(lock) || ''),
      colour: () => 'yellow',
    },
    { title: 'FOR', value: ({ since }) => since, shown: durationLabel },
    {
      title: 'INSTANCE',
      value: (lock) => lock.instanceName ?? lock.instance ?? lock.application ?? lock.user,
      shown: (lock) => participantLabel(lock, lock.pid) + (lock.requests > 1 ? ` (${lock.requests} calls)` : ''),
    },
    ...pipedColumns<ObservedLock>({ 'INSTANCE ID': 'instance', HOST: 'host', PROCESS: 'osPid' }),
    ...pipedColumns<ObservedLock>({ SESSION: 'pid', FENCE: 'fence' }),
    { title: 'BLOCKED BY', value: ({ blockedBy }) => blockedBy.join(','), shown: onlyWhenPiped },
    ...pipedColumns<ObservedLock>({ KEY: 'key' }),
  ]
}
