import { formatDuration } from '../../base/index.js'
import { type ObservedLease, Observer, participantLabel } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import type { LeaseShow } from '../documents.js'
import { readTarget } from '../labels.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function leaseShow(settings: Settings, name: string): Promise<void> {
  const target = readTarget(settings, name)
  const [lease, locks] = await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    const [lease] = await observer.leases({ key: target.key })
    return [lease, await observer.locks({ key: target.key })] as const
  })
  const registered = lease?.label ? lease : target
  const document: LeaseShow = {
    name: registered.label,
    namespace: registered.namespace,
    key: target.key,
    state: lease ? (lease.held ? 'leased' : 'min-hold') : locks.some(({ granted }) => granted) ? 'locked' : 'free',
    lease: lease ?? null,
  }
  if (printDocument<'lease-show'>(settings, document)) return
  printFacts(settings, [
    ['name', document.name ?? ''],
    ...(document.namespace ? [['namespace', document.namespace] as const] : []),
    ['key', document.key],
    ['state', stateTexts[document.state]],
    ...(lease ? factsOf(lease) : []),
  ])
}

const stateTexts: Record<LeaseShow['state'], string> = {
  leased: 'leased',
  'min-hold': 'blocked: the lease was released, but its minimum hold has not ended',
  locked: 'locked: `holdfast lock show` shows the holder',
  free: 'free',
}

export function factsOf(lease: ObservedLease): Fact[] {
  const { instance, fence, forMs, expiresInMs, ttlMs, held, hasWaiters } = lease
  const holder = `${participantLabel(lease)}, instance ${instance}, for ${formatDuration(forMs)}, fence ${fence}`
  const left = formatDuration(expiresInMs)
  return [
    [held ? 'leased by' : 'was leased by', holder],
    ['free in', held ? `${left}, unless the holder renews the lease for another ${formatDuration(ttlMs)}` : left],
    ...(hasWaiters ? [['has waiters', 'yes'] as const] : []),
  ]
}
