import { blockerIds, type ContendedName, type Holding, type Participant, type Wait } from './contended.js'

export interface Blocker {
  readonly participant: Participant
  /** Why it stands here: its wait for the name above it. Undefined at a root. */
  readonly wait: Wait | undefined
  /** True where it stands elsewhere in the trees with all that it blocks. */
  readonly isRepeated: boolean
  readonly blocked: readonly BlockedName[]
}

export interface BlockedName {
  readonly name: ContendedName
  /** How the participant above has it; undefined for one that only stands before the others in the queue. */
  readonly holding: Holding | undefined
  /** True where those who wait stand below another who has it too. */
  readonly isRepeated: boolean
  /** Not told of for an election: who stands for it waits for nothing that holds it up. */
  readonly waiters: readonly Blocker[]
}

/** At the roots who waits for nobody; below each the names that it blocks, below each name who waits for it. */
export function treesOf(participants: readonly Participant[], names: readonly ContendedName[]): Blocker[] {
  const byId = new Map(participants.map((participant) => [participant.id, participant]))
  const blockedBy = new Map<string, ContendedName[]>()
  const waiters = new Set<string>()
  for (const name of names) {
    const blockers = blockerIds(name)
    for (const id of blockers) blockedBy.set(id, [...(blockedBy.get(id) ?? []), name])
    // To stand for an election holds nobody up.
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
    // Who stands first in the queue of a name that nobody holds does not wait below itself.
    const waits = holding ? name.waits : name.waits.slice(1)
    const expanded = isRepeated || name.kind === 'election' ? [] : waits
    return { name, holding, isRepeated, waiters: expanded.map((wait) => expand(wait.participant, wait)) }
  }

  const roots = [...blockedBy.keys()].filter((id) => !waiters.has(id)).map((id) => expand(id))
  // What is left runs in circles: any of them may stand first.
  for (const id of blockedBy.keys()) if (!shown.has(id)) roots.push(expand(id))
  return roots
}
