// Computes the wait graph's layout.
import { Graph, layout } from '@dagrejs/dagre'
import { shorten } from '../format.js'
import { type Mark, markOf } from '../marks.js'
import { type ContendedName, holdText, nameLabel, participantLabel, type WaitGraphData } from '../pages/now/labels.js'

/** Role of a node or an edge. `certain`, `possible`: part of a certain or possible deadlock. `root`: blocks others. */
type Role = 'certain' | 'possible' | 'root' | 'plain'

interface Node {
  readonly id: string
  readonly kind: 'who' | 'name' | 'more'
  readonly title: string
  readonly caption: string
  readonly role: Role
  readonly mark: Mark | undefined
  /** Text without truncation. */
  readonly label: string
  readonly width: number
}

interface Edge {
  readonly from: string
  readonly to: string
  readonly kind: 'has' | 'waits'
  readonly role: Role
  /** Text that is shown before the duration. */
  readonly caption: string
  readonly forMs: number | null
}

export type Point = Readonly<Record<'x' | 'y', number>>

export type DrawnNode = Node & Point
export type DrawnEdge = Edge & { readonly points: readonly Point[]; readonly middle: Point }

export const boxHeight = 44
const maxLetters = 26
/**
 * Maximum number of participants drawn per name, among those that only wait for the name and block no other
 * participant.
 */
const maxLeaves = 5

/** Returns the nodes in reading order, the edges, and the size of the drawing. */
export function drawWaits(waits: WaitGraphData, isUpright: boolean) {
  const { nodes, edges } = buildParts(waits)
  const graph = new Graph({ multigraph: true })
  graph.setGraph({
    rankdir: isUpright ? 'TB' : 'LR',
    nodesep: isUpright ? 20 : 16,
    ranksep: isUpright ? 22 : 26,
    marginx: 6,
    marginy: 6,
  })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const { id, width } of nodes) graph.setNode(id, { width, height: boxHeight })
  for (const { kind, from, to, caption } of edges) {
    graph.setEdge(from, to, { width: 44 + caption.length * 6.4, height: 18, labelpos: 'c' }, kind)
  }
  layout(graph)
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number }
  const along = ({ x, y }: Point) => (isUpright ? y * 10_000 + x : x * 10_000 + y)
  return {
    nodes: nodes.map((node) => ({ ...node, ...pointOf(graph.node(node.id)) })).sort((a, b) => along(a) - along(b)),
    edges: edges.map((edge): DrawnEdge => {
      const drawn = graph.edge(edge.from, edge.to, edge.kind) as Point & { points: Point[] }
      return { ...edge, points: drawn.points, middle: pointOf(drawn) }
    }),
    width: Math.ceil(width),
    height: Math.ceil(height),
  }
}

function pointOf(drawn: unknown): Point {
  const { x, y } = drawn as Point
  return { x, y }
}

function buildParts(waits: WaitGraphData): { nodes: Node[]; edges: Edge[] } {
  const { names, participants } = waits
  const roles = rolesOf(waits)
  const roleOf = (id: string) => roles.get(id) ?? 'plain'
  const blocks = new Map(waits.roots.map((root) => [root.participant, root.blocks]))
  const holding = new Set(names.flatMap(({ holders }) => holders.map(({ participant }) => participant)))
  const byId = new Map(participants.map((one) => [one.id, one]))
  const nodes = new Map<string, Node>()
  const edges: Edge[] = []

  /** Whether a participant holds only rates. An operator can end a minimum hold, but cannot refill a lane's rate. */
  const holdsOnlyRates = (id: string) =>
    names.every(({ holders }) => holders.every(({ participant, how }) => participant !== id || how === 'rate'))

  const addParticipant = (id: string) => {
    const who = byId.get(id)
    if (!who || nodes.has(id)) return
    const role = roleOf(id)
    const title = shorten(participantLabel(who), maxLetters)
    const caption = {
      certain: 'deadlock',
      possible: 'possible deadlock',
      root:
        who.kind === 'no-holder' && holdsOnlyRates(id)
          ? 'waits for refill'
          : blocks.get(id)
            ? `blocks ${blocks.get(id)}`
            : 'waits for itself',
      plain: holding.has(id) ? 'waits and blocks others' : 'waits',
    }[role]
    nodes.set(id, {
      ...{
        id,
        kind: 'who',
        title,
        caption,
        role,
        mark: who.instance === null ? undefined : markOf(who.instance, who.instanceName),
      },
      ...{
        label: `${participantLabel(who)}: ${caption}`,
        width: Math.max(title.length * 7.6, caption.length * 7.6 + 17) + 58,
      },
    })
  }

  for (const name of names) {
    const title = shorten(name.label ?? `key ${name.key}`, maxLetters)
    const caption = `${name.kind}, ${name.waiting} waiting`
    nodes.set(name.id, {
      ...{ id: name.id, kind: 'name', title, caption, role: roleOf(name.id), mark: undefined },
      ...{ label: `${nameLabel(name)}: ${caption}`, width: Math.max(title.length * 8, caption.length * 7 + 17) + 28 },
    })
    for (const holding of name.holders) {
      const { participant, forMs } = holding
      // A job that is not running is both the name and its holder. The job has one box, without an edge to itself.
      if (participant === name.id) continue
      addParticipant(participant)
      const role = roleOf(`${participant} ${name.id}`)
      edges.push({ from: participant, to: name.id, kind: 'has', role, caption: holdText(holding), forMs })
    }
    const leaves = name.waits.filter(({ participant }) => !holding.has(participant) && !roles.has(participant))
    const hidden = new Set(leaves.slice(maxLeaves))
    for (const wait of name.waits) {
      if (hidden.has(wait)) continue
      const { participant, requests, forMs } = wait
      addParticipant(participant)
      // If a name has no holder, the first participant in the name's queue blocks the others.
      const isFirst = name.holders.length === 0 && wait === name.waits[0]
      edges.push({
        ...(isFirst
          ? { from: participant, to: name.id, kind: 'has' }
          : { from: name.id, to: participant, kind: 'waits' }),
        ...{ role: roleOf(`${name.id} ${participant}`), forMs },
        caption: `${isFirst ? 'first in queue' : 'waits'}${requests > 1 ? ` ×${requests}` : ''}`,
      })
    }
    const more = hidden.size + Math.max(0, name.waiting - callsOf(name))
    if (more > 0) {
      const id = `more ${name.id}`
      const [title, caption] = [`and ${more} more`, more === 1 ? 'waits' : 'wait']
      nodes.set(id, { id, kind: 'more', title, caption, role: 'plain', mark: undefined, label: '', width: 130 })
      edges.push({ from: name.id, to: id, kind: 'waits', role: 'plain', caption: '', forMs: null })
    }
  }
  return { nodes: [...nodes.values()], edges: edges.filter(({ from, to }) => nodes.has(from) && nodes.has(to)) }
}

/** Returns the number of waiting calls whose participants are listed. */
function callsOf({ waits }: ContendedName): number {
  return waits.reduce((sum, { requests }) => sum + requests, 0)
}

/** Returns the roles of nodes (by their id) and edges (by the ids of both ends). */
function rolesOf({ roots, cycles }: WaitGraphData): Map<string, Role> {
  const roles = new Map<string, Role>(roots.map(({ participant }) => [participant, 'root']))
  // `cycles` lists confirmed deadlocks first. This loop visits the cycles in reverse order, so that confirmed deadlocks
  // overwrite possible deadlocks.
  for (const { isCertain, sides } of [...cycles].reverse()) {
    const role = isCertain ? 'certain' : 'possible'
    for (const { participant, holds, waitsFor } of sides) {
      for (const id of [participant, holds, `${participant} ${holds}`, `${waitsFor} ${participant}`])
        roles.set(id, role)
    }
  }
  return roles
}
