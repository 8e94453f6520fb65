import { type ContendedName, holderIds, type Wait } from './contended.js'

/**
 * Participants that wait in a circle. Each waits for a name that the next one holds, and the last waits for a name that the
 * first one holds.
 */
export interface Cycle {
  /**
   * True for a deadlock: each side is one call or one session that is known to hold and to wait. False if different calls of an
   * instance may hold and wait.
   */
  readonly isCertain: boolean
  /** Participants of the circle, in order. */
  readonly sides: readonly CycleSide[]
}

/** One participant of a circle. */
export interface CycleSide {
  /** ID of the participant. */
  readonly participant: string
  /** ID of the name that it holds, and that the side before it waits for. */
  readonly holds: string
  /** ID of the name that it waits for. */
  readonly waitsFor: string
  /** Duration of the wait, in milliseconds. */
  readonly forMs: number | null
}

/** One that waits and holds: a call, a session, or an instance as a whole. */
interface WaitNode {
  readonly participant: string
  readonly wants: string
  readonly forMs: number | null
  readonly holds: ReadonlySet<string>
}

/** Waits that are younger may end by themselves while one looks, and prove nothing of instances as a whole. */
const minWaitMs = 2_000

export function findCycles(names: readonly ContendedName[]): Cycle[] {
  const certain = findCircles(callNodes(names), (node) => node).map((sides) => ({ isCertain: true, sides }))
  const known = new Set(certain.flatMap(({ sides }) => sides.map(({ participant }) => participant)))
  const others = instanceNodes(names).filter(({ participant }) => !known.has(participant))
  const possible = findCircles(others, ({ participant }) => participant)
  return [...certain, ...possible.map((sides) => ({ isCertain: false, sides }))]
}

/** The calls and sessions of which it is known what they hold. */
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
      // A session of ours serves many calls; one of somebody else does one thing at a time.
      const session = wait.pid !== null && isSession(wait) ? heldBySession.get(wait.pid) : undefined
      return [...calls, ...(session ? [session] : [])].map((held) => ({
        ...node,
        holds: new Set([...held].filter((id) => isInTheWay(id, wait.participant))),
      }))
    }),
  )

  /** Of a limit with several holders any may make room, so that one of them alone is in nobody's way. */
  function isInTheWay(id: string, participant: string): boolean {
    const name = byId.get(id)
    if (!name) return false
    const holders = holderIds(name)
    return holders.includes(participant) && (name.kind !== 'limit' || name.holders.length === 1)
  }
}

/** The instances as a whole: all that each holds, for each that it waits for. */
function instanceNodes(names: readonly ContendedName[]): WaitNode[] {
  const held = new Map<string, Set<string>>()
  for (const name of names) {
    for (const id of holderIds(name)) held.set(id, (held.get(id) ?? new Set()).add(name.id))
  }
  return names.flatMap(({ id, kind, waits }) =>
    // To stand for an election is no call that goes on when it is over: every instance holds something meanwhile.
    kind === 'election'
      ? []
      : waits
          .filter(({ forMs }) => forMs === null || forMs >= minWaitMs)
          .flatMap(({ participant, forMs }) => {
            const holds = new Set(held.get(participant))
            // That one call waits for what another call of the same instance has is a queue, and no circle.
            holds.delete(id)
            return holds.size > 0 ? [{ participant, wants: id, forMs, holds }] : []
          }),
  )
}

function isSession({ participant }: Wait): boolean {
  return participant.startsWith('session ')
}

/** The shortest circle through each node that stands in none of those found before; `one` tells what counts as standing in it. */
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

/** Without those that nobody waits for, or that wait for nobody here, until only circles and what joins them are left. */
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

/** From one that waits, along who holds what is waited for, back to it. */
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
