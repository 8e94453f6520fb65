import { type ObservedLock, Observer, whoIs } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import type { LockShow } from '../documents.js'
import { factsOf } from '../lease/show.js'
import { printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'
import { forHowLong, targetOf } from '../who.js'

export async function lockShow(settings: Settings, name: string): Promise<void> {
  const target = targetOf(settings, name)
  const [locks, lease] = await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    const [lease] = await observer.leases({ key: target.key })
    return [await observer.locks({ key: target.key }), lease] as const
  })
  const holders = locks.filter(({ granted }) => granted)
  const waiters = locks.filter(({ granted }) => !granted)
  const registered = [...locks, ...(lease ? [lease] : [])].find(({ label }) => label !== null) ?? target
  const answer: LockShow = {
    name: registered.label,
    namespace: registered.namespace,
    key: target.key,
    state: holders[0]?.mode ?? (lease ? 'leased' : 'free'),
    holders,
    waiters,
    lease: lease ?? null,
  }
  if (printDocument<'lock-show'>(settings, answer)) return
  printFacts(settings, [
    ['name', answer.name ?? ''],
    ...(answer.namespace ? [['namespace', answer.namespace] as const] : []),
    ['key', answer.key],
    ['state', holders.length > 0 ? `held, ${answer.state}` : answer.state],
    ...holders.map((holder) => ['holder', tell(holder)] as const),
    ...(lease ? factsOf(lease) : []),
    ...waiters.map((waiter) => ['waits', tell(waiter)] as const),
  ])
}

function tell(lock: ObservedLock): string {
  const { instance, pid, fence, mode, requests, granted } = lock
  const parts = [
    whoIs(lock, pid),
    instance !== null && `instance ${instance}`,
    instance !== null && pid !== null && `session ${pid}`,
    !granted && mode,
    forHowLong(lock) && `for ${forHowLong(lock)}`,
    fence !== null && `fence ${fence}`,
    requests > 1 && `${requests} calls`,
  ]
  return parts.filter((part) => part).join(', ')
}
