import { formatDuration } from '../../base/index.js'
import { type ObservedLease, Observer, whoIs } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import type { LeaseShow } from '../documents.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'
import { targetOf } from '../who.js'

export async function leaseShow(settings: Settings, name: string): Promise<void> {
  const target = targetOf(settings, name)
  const [lease, locks] = await withDatabase(settings, async (database, schema) => {
    const observer = new Observer(database, schema)
    const [lease] = await observer.leases({ key: target.key })
    return [lease, await observer.locks({ key: target.key })] as const
  })
  const registered = lease?.label ? lease : target
  const answer: LeaseShow = {
    name: registered.label,
    namespace: registered.namespace,
    key: target.key,
    state: lease ? (lease.held ? 'leased' : 'kept') : locks.some(({ granted }) => granted) ? 'locked' : 'free',
    lease: lease ?? null,
  }
  if (printDocument<'lease-show'>(settings, answer)) return
  printFacts(settings, [
    ['name', answer.name ?? ''],
    ...(answer.namespace ? [['namespace', answer.namespace] as const] : []),
    ['key', answer.key],
    ['state', told[answer.state]],
    ...(lease ? factsOf(lease) : []),
  ])
}

const told: Record<LeaseShow['state'], string> = {
  leased: 'leased',
  kept: 'kept taken: it was given back, and its hold is not over',
  locked: 'locked: `holdfast lock show` tells by whom',
  free: 'free',
}

/** Also for who asks about the lock of the name. */
export function factsOf(lease: ObservedLease): Fact[] {
  const { instance, fence, forMs, expiresInMs, ttlMs, held, wanted } = lease
  const holder = `${whoIs(lease)}, instance ${instance}, for ${formatDuration(forMs)}, fence ${fence}`
  const renewed = held ? `, unless it is renewed, for ${formatDuration(ttlMs)} each time` : ''
  return [
    [held ? 'leased by' : 'was leased by', holder],
    ['free in', `${formatDuration(expiresInMs)}${renewed}`],
    ...(wanted ? [['waits', 'somebody'] as const] : []),
  ]
}
