import type { ObservedLock } from './observer.js'

/**
 * Who waits for whom.
 *
 * A participant is an instance as a whole, or a session of somebody else. An instance waits on one session and holds
 * on another, so only the instance links what it waits for with what waits for it. That it does both at once is no
 * proof of a deadlock: different calls of one process may be at work.
 */
export interface WaitGraph {
  readonly participants: readonly Participant[]
  readonly edges: readonly WaitEdge[]
  /** The same as trees: at the root who blocks others and waits for nobody, below it who waits for it. */
  readonly roots: readonly Blocker[]
}

export interface Participant {
  /** The instance's id, or `session 4711`. */
  readonly id: string
  readonly instance: string | null
  readonly host: string | null
  readonly osPid: number | null
  /** The server processes that it holds or waits with. */
  readonly pids: readonly number[]
  readonly application: string | null
  readonly user: string | null
}

export interface WaitEdge {
  readonly key: string
  readonly namespace: string | null
  readonly label: string | null
  readonly mode: 'exclusive' | 'shared'
  /** Who waits: the id of a participant. */
  readonly waiter: string
  /** For whom: it holds the name, or stands before the waiter in the queue. */
  readonly blocker: string
  readonly blockerHolds: boolean
  readonly since: Date | null
  readonly forMs: number | null
  /** How many calls inside the waiter wait together. */
  readonly requests: number
}

export interface Blocker {
  readonly participant: Participant
  /** What it waits for itself; undefined at a root. */
  readonly waitsAs: WaitEdge | undefined
  /** True where it stands elsewhere in the trees with all that it blocks. */
  readonly repeated: boolean
  readonly blocked: readonly BlockedName[]
}

export interface BlockedName {
  readonly key: string
  readonly namespace: string | null
  readonly label: string | null
  readonly waiters: readonly Blocker[]
}

export function buildGraph(locks: readonly ObservedLock[]): WaitGraph {
  const edges = locks.filter(({ granted }) => !granted).flatMap((waiting) => edgesOf(waiting, locks))
  const involved = new Set(edges.flatMap(({ waiter, blocker }) => [waiter, blocker]))
  const participants = participantsOf(locks).filter(({ id }) => involved.has(id))
  return { participants, edges, roots: treesOf(participants, edges) }
}

export function participantId({ instance, pid }: Pick<ObservedLock, 'instance' | 'pid'>): string {
  return instance ?? `session ${pid}`
}

function edgesOf(waiting: ObservedLock, locks: readonly ObservedLock[]): WaitEdge[] {
  const others = locks.filter((lock) => lock.key === waiting.key && lock !== waiting && lock.pid !== null)
  const before = others.filter(({ pid }) => waiting.blockedBy.includes(pid!))
  const holders = before.filter(({ granted }) => granted)
  // Who stands between in the queue only matters where no holder is in the way.
  const blockers = new Map((holders.length > 0 ? holders : before).map((lock) => [participantId(lock), lock]))
  const { key, namespace, label, mode, since, forMs, requests } = waiting
  return [...blockers].map(([blocker, { granted }]) => ({
    key,
    namespace,
    label,
    mode,
    waiter: participantId(waiting),
    blocker,
    blockerHolds: granted,
    since,
    forMs,
    requests,
  }))
}

function participantsOf(locks: readonly ObservedLock[]): Participant[] {
  const found = new Map<string, Participant & { pids: number[] }>()
  for (const lock of locks) {
    const id = participantId(lock)
    const { instance, host, osPid, application, user, pid } = lock
    const known = found.get(id) ?? { id, instance, host, osPid, application, user, pids: [] }
    if (pid !== null && !known.pids.includes(pid)) known.pids.push(pid)
    found.set(id, known)
  }
  return [...found.values()]
}

function treesOf(participants: readonly Participant[], edges: readonly WaitEdge[]): Blocker[] {
  const byId = new Map(participants.map((participant) => [participant.id, participant]))
  const waiters = new Set(edges.filter(({ waiter, blocker }) => waiter !== blocker).map(({ waiter }) => waiter))
  const blockers = [...new Set(edges.map(({ blocker }) => blocker))]
  const shown = new Set<string>()

  const expand = (id: string, waitsAs?: WaitEdge): Blocker => {
    const repeated = shown.has(id)
    shown.add(id)
    const mine = repeated ? [] : edges.filter(({ blocker }) => blocker === id)
    const keys = [...new Set(mine.map(({ key }) => key))]
    const blocked = keys.map((key) => {
      const waits = mine.filter((edge) => edge.key === key)
      const { namespace, label } = waits[0]!
      return { key, namespace, label, waiters: waits.map((edge) => expand(edge.waiter, edge)) }
    })
    return { participant: byId.get(id)!, waitsAs, repeated: repeated && edges.some((e) => e.blocker === id), blocked }
  }

  const roots = blockers.filter((id) => !waiters.has(id)).map((id) => expand(id))
  // What is left runs in circles: any of them may stand first.
  for (const id of blockers) if (!shown.has(id)) roots.push(expand(id))
  return roots
}
