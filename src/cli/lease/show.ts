import { otherNamespaceNote } from '../../acts/index.js'
import { formatDuration } from '../../base/index.js'
import { instanceDetails, type ObservedLease, type ObservedLock, type Observer } from '../../observe/index.js'
import { observe } from '../connect.js'
import type { LeaseShow, Name } from '../documents.js'
import { readTarget, type Target } from '../labels.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function leaseShow(settings: Settings, word: string): Promise<void> {
  const target = readTarget(settings, word)
  const { locks, lease, note } = await observe(settings, async (observer) => {
    const found = await findName(observer, target)
    return { ...found, note: await namespaceNote(observer, target, found) }
  })
  const name = registeredName(target, lease)
  const state = lease ? (lease.held ? 'leased' : 'min-hold') : locks.some(({ granted }) => granted) ? 'locked' : 'free'
  const document: LeaseShow = { ...name, state, lease }
  if (printDocument<'lease-show'>(settings, document)) return
  printFacts(settings, [...nameFacts(name), ['state', stateTexts[state]], ...leaseFacts(lease), ...note])
}

const stateTexts: Record<LeaseShow['state'], string> = {
  leased: 'leased',
  'min-hold': 'blocked: the lease was released, but its minimum hold has not ended',
  locked: 'locked: `holdfast lock show` shows the holder',
  free: 'free',
}

/** Reads the locks and the lease on a name. */
export async function findName(observer: Observer, { key }: Pick<Target, 'key'>) {
  const [lease = null] = await observer.leases({ key })
  return { locks: await observer.locks({ key }), lease }
}

interface Found {
  readonly locks: readonly ObservedLock[]
  readonly lease: ObservedLease | null
}

/** Returns a hint if the name is free in its namespace, but is used in another one. */
export async function namespaceNote(observer: Observer, target: Target, found: Found): Promise<Fact[]> {
  if (found.lease !== null || found.locks.length > 0 || target.namespace === null) return []
  const note = await otherNamespaceNote(observer, target.label)
  return note === undefined ? [] : [['note', note]]
}

/**
 * Returns the name with the label that a holder or waiter has registered, or else with the text that the user typed.
 */
export function registeredName(target: Target, ...found: readonly (ObservedLock | ObservedLease | null)[]): Name {
  const { label, namespace } = found.find((one) => one && one.label !== null) ?? target
  return { name: label, namespace, key: target.key }
}

export function nameFacts({ name, namespace, key }: Name): Fact[] {
  return [['name', name ?? ''], ...(namespace ? [['namespace', namespace] as const] : []), ['key', key]]
}

export function leaseFacts(lease: ObservedLease | null): Fact[] {
  if (lease === null) return []
  const { fence, forMs, expiresInMs, ttlMs, held, hasWaiters } = lease
  const holder = `${instanceDetails(lease)}, for ${formatDuration(forMs)}, fence ${fence}`
  const left = formatDuration(expiresInMs)
  return [
    [held ? 'leased by' : 'was leased by', holder],
    ['free in', held ? `${left}, unless the holder renews the lease for another ${formatDuration(ttlMs)}` : left],
    ...(hasWaiters ? [['has waiters', 'yes'] as const] : []),
  ]
}
