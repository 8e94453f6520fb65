import { type ContendedName, holderIds, type Wait } from './contended.js'

/**
 * A cycle of participants. Each participant waits for a name that the next participant holds. The last participant
 * waits for a name that the first participant holds.
 */
export interface Cycle {
  /**
   * True for a deadlock: for each participant, the same call or session is known to hold one name and to wait for
   * another name. False if the holding call and the waiting call of an instance may be different calls.
   */
  readonly isCertain: boolean
  /** Participants in the cycle, in order. */
  readonly sides: readonly CycleSide[]
}

/** One participant in a cycle. */
export interface CycleSide {
  /** ID of the participant. */
  readonly participant: string
  /** ID of the name that the participant holds and that the previous participant waits for. */
  readonly holds: string
  /** ID of the name that the participant waits for. */
  readonly waitsFor: string
  /** Duration of the participant's wait so far, in milliseconds. */
  readonly forMs: number | null
}

/** A call, a session or a whole instance that holds names and is waiting for another name. */
interface WaitNode {
  readonly participant: string
  readonly wants: string
  readonly forMs: number | null
  readonly holds: ReadonlySet<string>
}

/** Minimum age of each wait in a possible cycle. More recent waits often end without intervention. */
const minWaitMs = 2_000

export function findCycles(names: readonly ContendedName[]): Cycle[] {
  const certain = findCircles(callNodes(names), (node) => node).map((sides) => ({ isCertain: true, sides }))
  const known = new Set(certain.flatMap(({ sides }) => sides.map(({ participant }) => participant)))
  const others = instanceNodes(names).filter(({ participant }) => !known.has(participant))
  const possible = findCircles(others, ({ participant }) => participant)
  return [...certain, ...possible.map((sides) => ({ isCertain: false, sides }))]
}

/** Returns a node for each waiting call or session whose holds are known. */
function callNodes(names: readonly ContendedName[]): WaitNode[] {
  const byId = new Map(names.map((name) => [name.id, name]))
  const heldBySession = new Map<number, Set<string>>()
  for (const { id, holders } of names) {
    for (const { pid } of holders)
      if (pid !== null) heldBySession.set(pid, (heldBySession.get(pid) ?? new Set()).add(id))
  }
  return names.flatMap((name) =>
    name.waits.flatMap((wait) => {
      const node = { participant: wait.participant, wants: name.id, forMs: wait.forMs }
      const calls = wait.calls.map(({ holds }) => new Set(holds))
      // A Holdfast session serves many calls. Any other session runs one statement at a time.
      const session = wait.pid !== null && isSession(wait) ? heldBySession.get(wait.pid) : undefined
      return [...calls, ...(session ? [session] : [])].map((held) => ({
        ...node,
        holds: new Set([...held].filter((id) => isInTheWay(id, wait.participant))),
      }))
    }),
  )

  /**
   * A cycle through a limit with several holders is never a confirmed deadlock, because any holder may release a
   * permit.
   */
  function isInTheWay(id: string, participant: string): boolean {
    const name = byId.get(id)
    if (!name) return false
    const holders = holderIds(name)
    return holders.includes(participant) && (name.kind !== 'limit' || name.holders.length === 1)
  }
}

/** Returns one node for each wait of an instance. The node lists the other names that the instance holds. */
function instanceNodes(names: readonly ContendedName[]): WaitNode[] {
  const held = new Map<string, Set<string>>()
  for (const name of names) {
    for (const id of holderIds(name)) held.set(id, (held.get(id) ?? new Set()).add(name.id))
  }
  return names.flatMap(({ id, kind, waits }) =>
    // A candidacy does not block any other work in its instance.
    kind === 'election'
      ? []
      : waits
          .filter(({ forMs }) => forMs === null || forMs >= minWaitMs)
          .flatMap(({ participant, forMs }) => {
            const holds = new Set(held.get(participant))
            // Two calls in one instance that want the same name form a queue, not a cycle.
            holds.delete(id)
            return holds.size > 0 ? [{ participant, wants: id, forMs, holds }] : []
          }),
  )
}

function isSession({ participant }: Wait): boolean {
  return participant.startsWith('session ')
}

/**
 * Returns the shortest cycle through each node that is not part of an earlier cycle. Nodes with the same `identify`
 * result count as the same node.
 */
function findCircles(all: readonly WaitNode[], identify: (node: WaitNode) => unknown): CycleSide[][] {
  const nodes = withoutDeadEnds(all)
  const heldBy = new Map<string, WaitNode[]>()
  for (const node of nodes) for (const id of node.holds) heldBy.set(id, [...(heldBy.get(id) ?? []), node])
  const found: CycleSide[][] = []
  const covered = new Set<unknown>()
  for (const start of nodes) {
    if (covered.has(identify(start))) continue
    const path = shortestCircle(start, heldBy)
    if (!path) continue
    for (const node of path) covered.add(identify(node))
    found.push(
      path.map(({ participant, wants, forMs }, at) => {
        const before = path.at(at - 1)!
        return { participant, holds: before.wants, waitsFor: wants, forMs }
      }),
    )
  }
  return found
}

/**
 * Repeatedly removes nodes that do not wait for another node, and nodes that no other node waits for. Only cycles and
 * paths between cycles remain.
 */
function withoutDeadEnds(nodes: readonly WaitNode[]): WaitNode[] {
  let left = [...nodes]
  for (;;) {
    const wanted = new Set(left.map(({ wants }) => wants))
    const held = new Set(left.flatMap(({ holds }) => [...holds]))
    const kept = left.filter(({ wants, holds }) => held.has(wants) && [...holds].some((id) => wanted.has(id)))
    if (kept.length === left.length) return kept
    left = kept
  }
}

/** Returns the shortest path from a node back to itself, found by breadth-first search. */
function shortestCircle(start: WaitNode, heldBy: ReadonlyMap<string, readonly WaitNode[]>): WaitNode[] | undefined {
  const before = new Map<WaitNode, WaitNode | undefined>([[start, undefined]])
  const queue = [start]
  for (let node = queue.shift(); node; node = queue.shift()) {
    for (const next of heldBy.get(node.wants) ?? []) {
      if (next === start) {
        const path: WaitNode[] = []
        for (let at: WaitNode | undefined = node; at; at = before.get(at)) path.unshift(at)
        return path
      }
      if (before.has(next)) continue
      before.set(next, node)
      queue.push(next)
    }
  }
  return undefined
}
