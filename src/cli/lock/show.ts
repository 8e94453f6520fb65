import { type ObservedLock, Observer, participantLabel } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import type { LockShow } from '../documents.js'
import { durationLabel, readTarget } from '../labels.js'
import { factsOf } from '../lease/show.js'
import { printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function lockShow(settings: Settings, name: string): Promise<void> {
  const target = readTarget(settings, name)
  const [locks, lease] = await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    const [lease] = await observer.leases({ key: target.key })
    return [await observer.locks({ key: target.key }), lease] as const
  })
  const holders = locks.filter(({ granted }) => granted)
  const waiters = locks.filter(({ granted }) => !granted)
  const registered = [...locks, ...(lease ? [lease] : [])].find(({ label }) => label !== null) ?? target
  const document: LockShow = {
    name: registered.label,
    namespace: registered.namespace,
    key: target.key,
    state: holders[0]?.mode ?? (lease ? 'leased' : 'free'),
    holders,
    waiters,
    lease: lease ?? null,
  }
  if (printDocument<'lock-show'>(settings, document)) return
  printFacts(settings, [
    ['name', document.name ?? ''],
    ...(document.namespace ? [['namespace', document.namespace] as const] : []),
    ['key', document.key],
    ['state', holders.length > 0 ? `held, ${document.state}` : document.state],
    ...holders.map((holder) => ['holder', lockText(holder)] as const),
    ...(lease ? factsOf(lease) : []),
    ...waiters.map((waiter) => ['waits', lockText(waiter)] as const),
  ])
}

function lockText(lock: ObservedLock): string {
  const { instance, pid, fence, mode, requests, granted } = lock
  const parts = [
    participantLabel(lock, pid),
    instance !== null && `instance ${instance}`,
    instance !== null && pid !== null && `session ${pid}`,
    !granted && mode,
    durationLabel(lock) && `for ${durationLabel(lock)}`,
    fence !== null && `fence ${fence}`,
    requests > 1 && `${requests} calls`,
  ]
  return parts.filter((part) => part).join(', ')
}
