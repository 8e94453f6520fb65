import {
  type Blocker,
  blockerIds,
  buildGraph,
  type ContendedName,
  type Participant,
  type Remedy,
  remediesFor,
  type WaitGraph,
} from '../observe/index.js'

const maxNames = 60
/** Maximum number of holders per name, and of waiters per name. */
const maxPerName = 20
/** Maximum number of rows in the tree. */
const maxRows = 200

/** Wait graph in the form that the page draws. */
export interface WaitGraphView {
  /** Number of waiting calls. */
  readonly calls: number
  /**
   * Participants that block others without waiting themselves, and one participant from each cycle. The participant
   * that blocks the most others is first.
   */
  readonly roots: readonly { readonly participant: string; readonly blocks: number }[]
  readonly cycles: WaitGraph['cycles']
  readonly participants: readonly Participant[]
  readonly names: readonly DrawnName[]
  readonly tree: readonly TreeRow[]
  /** Whether a part of the graph was omitted. */
  readonly isPartial: boolean
}

export interface DrawnName extends Omit<ContendedName, 'holders' | 'waits'> {
  readonly holders: readonly DrawnHolding[]
  readonly waits: readonly DrawnWait[]
}

type Holding = ContendedName['holders'][number]

export interface DrawnHolding
  extends Pick<Holding, 'participant' | 'how' | 'mode' | 'job' | 'weight' | 'forMs' | 'freeInMs'> {
  /** Acts that can free the name, starting with the least disruptive. */
  readonly remedies: readonly Remedy[]
}

export type DrawnWait = Pick<
  ContendedName['waits'][number],
  'participant' | 'mode' | 'weight' | 'requests' | 'forMs' | 'behind'
>

/**
 * Row in the tree. Without `has`, the row shows a participant and the name that the participant waits for. With `has`,
 * the row shows a name that the participant holds.
 */
export interface TreeRow {
  readonly depth: number
  readonly participant: string
  readonly has: boolean
  /** Null for the tree's roots. */
  readonly name: string | null
  /** Whether the rows below this row appear elsewhere in the tree. */
  readonly isRepeated: boolean
}

const emptyView = { calls: 0, roots: [], cycles: [], participants: [], names: [], tree: [], isPartial: false }

export function waitGraphView(graph?: WaitGraph): WaitGraphView {
  if (!graph || graph.names.length === 0) return emptyView
  const { cycles } = graph
  const calls = graph.names.reduce((sum, { waits, waiting }) => sum + Math.max(waiting, callsOf(waits)), 0)
  const kept = relevantNames(graph)
  const { participants, names, roots } = buildGraph(kept, graph.participants)
  const byId = new Map(participants.map((one) => [one.id, one]))
  const tree = roots.flatMap((root) => [...rowsOf(root, 0)])
  return {
    calls,
    roots: roots
      .map(({ participant: { id } }) => ({ participant: id, blocks: blockedBy(id, names) }))
      .sort((one, other) => other.blocks - one.blocks),
    cycles,
    participants,
    names: names.map((name) => drawName(name, byId)),
    tree: tree.slice(0, maxRows),
    isPartial:
      graph.isPartial ||
      tree.length > maxRows ||
      kept.length < graph.names.length ||
      kept.some(({ waits, waiting }) => callsOf(waits) < waiting),
  }
}

function callsOf(waits: ContendedName['waits']): number {
  return waits.reduce((sum, { requests }) => sum + requests, 0)
}

/** Shortens a large graph. Keeps cycles first, then participants that block others, then names with many waiters. */
function relevantNames({ names, cycles }: WaitGraph): ContendedName[] {
  const sides = cycles.flatMap((cycle) => cycle.sides)
  const inCircle = new Set(sides.flatMap(({ holds, waitsFor }) => [holds, waitsFor]))
  const blocking = new Set(names.flatMap(blockerIds))
  const matters = new Set([...sides.map(({ participant }) => participant), ...blocking])
  const limited = <One extends { participant: string }>(all: readonly One[]) => {
    if (all.length <= maxPerName) return all
    const first = [...all].sort((a, b) => Number(matters.has(b.participant)) - Number(matters.has(a.participant)))
    const chosen = new Set(first.slice(0, maxPerName))
    return all.filter((one) => chosen.has(one))
  }
  return [...names]
    .sort((a, b) => Number(inCircle.has(b.id)) - Number(inCircle.has(a.id)) || b.waiting - a.waiting)
    .slice(0, maxNames)
    .map((name) => ({ ...name, holders: limited(name.holders), waits: limited(name.waits) }))
}

/** Returns the number of participants that wait for the given participant, directly or indirectly. */
function blockedBy(id: string, names: readonly ContendedName[]): number {
  const found = new Set([id])
  for (const one of found) {
    for (const name of names) {
      if (blockerIds(name).includes(one)) for (const { participant } of name.waits) found.add(participant)
    }
  }
  return found.size - 1
}

function drawName(name: ContendedName, byId: ReadonlyMap<string, Participant>): DrawnName {
  // Merges one participant's rows, because each permit and each wait for a permit is a separate row.
  const holders = mergeBy(
    name.holders,
    ({ participant, job }) => `${participant} ${job}`,
    (one, other) => ({ ...one, weight: one.weight + other.weight, forMs: longest(one.forMs, other.forMs) }),
  )
  const waits = mergeBy(
    name.waits,
    ({ participant, mode }) => `${participant} ${mode}`,
    (one, other) => ({ ...one, requests: one.requests + other.requests, forMs: longest(one.forMs, other.forMs) }),
  )
  return {
    ...name,
    holders: holders.map((holding) => {
      const { participant, how, mode, job, weight, forMs, freeInMs } = holding
      const remedies = remediesFor(name, holding, byId.get(participant)!)
      return { participant, how, mode, job, weight, forMs, freeInMs, remedies }
    }),
    waits: waits.map(({ participant, mode, weight, requests, forMs, behind }) => {
      return { participant, mode, weight, requests, forMs, behind }
    }),
  }
}

function mergeBy<One>(all: readonly One[], keyOf: (one: One) => string, both: (one: One, other: One) => One): One[] {
  const found = new Map<string, One>()
  for (const one of all) {
    const known = found.get(keyOf(one))
    found.set(keyOf(one), known === undefined ? one : both(known, one))
  }
  return [...found.values()]
}

function longest(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other)
}

function* rowsOf(blocker: Blocker, depth: number, waitsFor: string | null = null): Generator<TreeRow> {
  const participant = blocker.participant.id
  yield { depth, participant, has: false, name: waitsFor, isRepeated: blocker.isRepeated }
  for (const { name, isRepeated, waiters } of blocker.blocked) {
    yield { depth: depth + 1, participant, has: true, name: name.id, isRepeated }
    for (const waiter of waiters) yield* rowsOf(waiter, depth + 2, name.id)
  }
}
