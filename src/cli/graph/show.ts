import { formatDuration } from '../../base/index.js'
import { type Blocker, Observer, type WaitGraph } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { say } from '../failure.js'
import { paint, printJson, visible, write } from '../output.js'
import type { Settings } from '../settings.js'
import { called, whoTakesPart } from '../who.js'

export async function showGraph(settings: Settings): Promise<void> {
  const asked = settings.oneOf('format', 'tree', 'json', 'dot')
  const format = settings.flag('json') ? 'json' : (asked ?? 'tree')
  const namespace = settings.text('namespace')
  const graph = await withDatabase(settings, (database, schema) => new Observer(database, schema).graph({ namespace }))
  if (format === 'json') return printJson({ nodes: graph.participants, edges: graph.edges })
  if (settings.flag('jsonl')) return write(graph.edges.map((edge) => JSON.stringify(edge)))
  if (format === 'dot') return write(dotOf(graph))
  write(graph.roots.flatMap((root) => treeOf(settings, root)))
  if (graph.roots.length === 0) say('Nobody waits.')
}

interface Branch {
  readonly text: string
  readonly below: readonly Branch[]
}

function treeOf(settings: Settings, root: Blocker): string[] {
  const { text, below } = branchOf(settings, root)
  return [text, ...drawn(below, '')]
}

function branchOf(settings: Settings, { participant, waitsAs, repeated, blocked }: Blocker): Branch {
  const calls = waitsAs && waitsAs.requests > 1 ? `, ${waitsAs.requests} calls` : ''
  const since = waitsAs && (waitsAs.forMs === null ? '' : ` for ${formatDuration(waitsAs.forMs)}`)
  const waits = waitsAs ? ` waits${since} (${waitsAs.mode}${calls})` : ''
  const id = participant.instance === null ? '' : paint(settings, ` ${participant.instance}`, 'dim')
  return {
    text: `${visible(whoTakesPart(participant))}${id}${paint(settings, waits, 'yellow')}${repeated ? ' … shown elsewhere' : ''}`,
    below: blocked.map((name) => ({
      text: `${visible(called(name))}${paint(settings, name.namespace ? ` in ${visible(name.namespace)}` : '', 'dim')}`,
      below: name.waiters.map((waiter) => branchOf(settings, waiter)),
    })),
  }
}

function drawn(branches: readonly Branch[], indent: string): string[] {
  return branches.flatMap(({ text, below }, at) => {
    const isLast = at === branches.length - 1
    return [`${indent}${isLast ? '└─' : '├─'} ${text}`, ...drawn(below, `${indent}${isLast ? '   ' : '│  '}`)]
  })
}

function dotOf({ participants, edges }: WaitGraph): string[] {
  const quote = (text: string) => `"${visible(text).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  return [
    'digraph holdfast {',
    ...participants.map((participant) => `  ${quote(participant.id)} [label=${quote(whoTakesPart(participant))}]`),
    ...edges.map((edge) => `  ${quote(edge.waiter)} -> ${quote(edge.blocker)} [label=${quote(called(edge))}]`),
    '}',
  ]
}
