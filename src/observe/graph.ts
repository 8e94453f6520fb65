import { blockerIds, type ContendedName, type Participant, type Wait } from './contended.js'
import { type Cycle, findCycles } from './cycles.js'
import { type Blocker, treesOf } from './trees.js'

/**
 * Who waits for whom, as it is at one moment: participants that wait for names, and names that participants hold. See the
 * README of this room for what each of these is, and for when a circle is a deadlock.
 *
 * @example
 * const { cycles } = await new Observer(database).graph()
 * const deadlocks = cycles.filter(({ isCertain }) => isCertain)
 */
export interface WaitGraph {
  /** Everybody who waits, or holds what others wait for. */
  readonly participants: readonly Participant[]
  /** What somebody waits for. */
  readonly names: readonly ContendedName[]
  /** Who waits for each other, the certain ones first. */
  readonly cycles: readonly Cycle[]
  /** The same as trees: at the root who blocks others and waits for nobody, below it who waits for it. */
  readonly roots: readonly Blocker[]
  /** Whether there are more names that somebody waits for than are told of. */
  readonly isPartial: boolean
}

/** Puts together what the rooms tell. */
export function buildGraph(
  allNames: readonly ContendedName[],
  participants: Iterable<Participant>,
  isPartial = false,
): WaitGraph {
  const contended = allNames.filter((name) => name.waits.length > 0 && blockerIds(name).length > 0)
  const ids = new Set(contended.map(({ id }) => id))
  const names = contended
    .map((name) => ({ ...name, waits: name.waits.map((wait) => withContendedHolds(wait, ids)) }))
    // Where nobody is held up comes last.
    .sort((a, b) => Number(a.kind === 'election') - Number(b.kind === 'election'))
  const involved = new Set(names.flatMap(({ holders, waits }) => [...holders, ...waits]).map((one) => one.participant))
  const known = new Map<string, Participant>()
  for (const one of participants) {
    // Several rooms may tell of one instance. The first knows its sessions; but not always its machine.
    if (involved.has(one.id) && (known.get(one.id)?.host ?? null) === null) known.set(one.id, one)
  }
  const everybody = [...known.values()]
  return { participants: everybody, names, cycles: findCycles(names), roots: treesOf(everybody, names), isPartial }
}

/** Of what its calls hold, what somebody waits for. */
function withContendedHolds(wait: Wait, ids: ReadonlySet<string>): Wait {
  return { ...wait, calls: wait.calls.map(({ holds }) => ({ holds: holds.filter((id) => ids.has(id)) })) }
}
