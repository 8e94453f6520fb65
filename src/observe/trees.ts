import { blockerIds, type ContendedName, type Holding, type Participant, type Wait } from './contended.js'

export interface Blocker {
  readonly participant: Participant
  /** The participant's wait for the name above it in the tree. Undefined for a root. */
  readonly wait: Wait | undefined
  /** True if everything that the participant blocks is listed elsewhere in the trees. */
  readonly isRepeated: boolean
  readonly blocked: readonly BlockedName[]
}

export interface BlockedName {
  readonly name: ContendedName
  /**
   * The hold of the participant above the name in the tree. Undefined if that participant holds nothing and is only
   * first in the queue.
   */
  readonly holding: Holding | undefined
  /** True if the waiters are listed below another holder. */
  readonly isRepeated: boolean
  /** Waiters of the name. Empty for an election, because its candidates are not blocked. */
  readonly waiters: readonly Blocker[]
}

/**
 * Builds the trees. The roots are participants that are not waiting. The children of a participant are the names that
 * it blocks, and the children of a name are its waiters.
 */
export function treesOf(participants: readonly Participant[], names: readonly ContendedName[]): Blocker[] {
  const byId = new Map(participants.map((participant) => [participant.id, participant]))
  const blockedBy = new Map<string, ContendedName[]>()
  const waiters = new Set<string>()
  for (const name of names) {
    const blockers = blockerIds(name)
    for (const id of blockers) blockedBy.set(id, [...(blockedBy.get(id) ?? []), name])
    // Election candidates are not blocked.
    for (const { participant } of name.kind === 'election' ? [] : name.waits) {
      if (blockers.some((id) => id !== participant)) waiters.add(participant)
    }
  }
  const shown = new Set<string>()
  const shownNames = new Set<string>()

  const expand = (id: string, wait?: Wait): Blocker => {
    const isRepeated = shown.has(id)
    shown.add(id)
    const blocks = blockedBy.get(id) ?? []
    const blocked = isRepeated ? [] : blocks.map((name) => expandName(id, name))
    return { participant: byId.get(id)!, wait, isRepeated: isRepeated && blocks.length > 0, blocked }
  }
  const expandName = (id: string, name: ContendedName): BlockedName => {
    const holding = name.holders.find(({ participant }) => participant === id)
    const isRepeated = shownNames.has(name.id)
    shownNames.add(name.id)
    // Without a holder, the first waiter is the blocker and is not listed below itself.
    const waits = holding ? name.waits : name.waits.slice(1)
    const expanded = isRepeated || name.kind === 'election' ? [] : waits
    return { name, holding, isRepeated, waiters: expanded.map((wait) => expand(wait.participant, wait)) }
  }

  const roots = [...blockedBy.keys()].filter((id) => !waiters.has(id)).map((id) => expand(id))
  // The remaining participants are part of cycles. Any participant in a cycle can be the root.
  for (const id of blockedBy.keys()) if (!shown.has(id)) roots.push(expand(id))
  return roots
}
