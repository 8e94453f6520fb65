import { instanceDetails, type ObservedLock, type Observer, participantLabel } from '../../observe/index.js'
import { observe } from '../connect.js'
import type { LockShow } from '../documents.js'
import { durationLabel, readTarget, type Target } from '../labels.js'
import { findName, leaseFacts, nameFacts, namespaceNote, registeredName } from '../lease/show.js'
import { printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function lockShow(settings: Settings, word: string): Promise<void> {
  const target = readTarget(settings, word)
  const { document, note } = await observe(settings, async (observer) => {
    const shown = await lockDocument(observer, target)
    return {
      document: shown,
      note: await namespaceNote(observer, target, { lease: shown.lease, locks: [...shown.holders, ...shown.waiters] }),
    }
  })
  if (printDocument<'lock-show'>(settings, document)) return
  const { state, holders, waiters, lease } = document
  printFacts(settings, [
    ...nameFacts(document),
    ['state', holders.length > 0 ? `held, ${state}` : state],
    ...holders.map((holder) => ['holder', lockText(holder)] as const),
    ...leaseFacts(lease),
    ...waiters.map((waiter) => ['waits', lockText(waiter)] as const),
    ...note,
  ])
}

/** Reads a name with its holders, its waiters and its lease. */
export async function lockDocument(observer: Observer, target: Target): Promise<LockShow> {
  const { locks, lease } = await findName(observer, target)
  const name = registeredName(target, ...locks, lease)
  const holders = locks.filter(({ granted }) => granted)
  const waiters = locks.filter(({ granted }) => !granted)
  const state = holders[0]?.mode ?? (lease ? 'leased' : 'free')
  return { ...name, state, holders, waiters, lease }
}

function lockText(lock: ObservedLock): string {
  const { instance, pid, fence, mode, requests, granted } = lock
  const parts = [
    instance === null ? participantLabel(lock, pid) : instanceDetails({ ...lock, instance }),
    instance !== null && pid !== null && `session ${pid}`,
    !granted && mode,
    durationLabel(lock) && `for ${durationLabel(lock)}`,
    fence !== null && `fence ${fence}`,
    requests > 1 && `${requests} calls`,
  ]
  return parts.filter((part) => part).join(', ')
}
