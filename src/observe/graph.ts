import { blockerIds, type ContendedName, type Participant, type Wait } from './contended.js'
import { type Cycle, findCycles } from './cycles.js'
import { type Blocker, treesOf } from './trees.js'

/**
 * Wait graph: the participants that are waiting for names, and the names that participants hold. src/observe/README.md
 * defines the terms and explains when a cycle is a deadlock.
 */
export interface WaitGraph {
  /** Participants that are waiting for a name or hold a contended name. */
  readonly participants: readonly Participant[]
  /** Names with waiting participants. */
  readonly names: readonly ContendedName[]
  /** Cycles of waits. Confirmed deadlocks come before possible deadlocks. */
  readonly cycles: readonly Cycle[]
  /** The graph as trees. A root blocks other participants and is not waiting itself. */
  readonly roots: readonly Blocker[]
  /** Whether more contended names exist than are listed. */
  readonly isPartial: boolean
}

/** Builds the graph from all modules' names and participants. */
export function buildGraph(
  allNames: readonly ContendedName[],
  participants: Iterable<Participant>,
  isPartial = false,
): WaitGraph {
  const contended = allNames.filter((name) => name.waits.length > 0 && blockerIds(name).length > 0)
  const ids = new Set(contended.map(({ id }) => id))
  const names = contended
    .map((name) => ({ ...name, waits: name.waits.map((wait) => withContendedHolds(wait, ids)) }))
    // Elections come last, because their candidates are not blocked.
    .sort((a, b) => Number(a.kind === 'election') - Number(b.kind === 'election'))
  const involved = new Set(names.flatMap(({ holders, waits }) => [...holders, ...waits]).map((one) => one.participant))
  const known = new Map<string, Participant>()
  for (const one of participants) {
    // Several sources may contain the same instance. The first source contains the instance's sessions, but not always
    // its host.
    if (involved.has(one.id) && (known.get(one.id)?.host ?? null) === null) known.set(one.id, one)
  }
  const listed = [...known.values()]
  return { participants: listed, names, cycles: findCycles(names), roots: treesOf(listed, names), isPartial }
}

/** Removes names that are not contended from the names that each call holds. */
function withContendedHolds(wait: Wait, ids: ReadonlySet<string>): Wait {
  return { ...wait, calls: wait.calls.map(({ holds }) => ({ holds: holds.filter((id) => ids.has(id)) })) }
}
