import type { WaitGraph } from '../../observe/index.js'
import { observe } from '../connect.js'
import type { GraphLine } from '../documents.js'
import { printMessage } from '../failure.js'
import { printJson, write } from '../output.js'
import type { Settings } from '../settings.js'
import { graphDocument } from './document.js'
import { dotOf } from './dot.js'
import { linesOf } from './tree.js'

export async function showGraph(settings: Settings): Promise<void> {
  const namespace = settings.name('namespace')
  const graph = await observe(settings, (observer) => observer.graph({ namespace }))
  if (settings.flag('jsonl')) return write(rowsOf(graph).map((row) => JSON.stringify(row)))
  if (settings.flag('json')) return printJson<'graph'>(graphDocument(graph, settings.text('schema')))
  write(settings.flag('dot') ? dotOf(graph) : linesOf(settings, graph))
  if (graph.names.length === 0) printMessage('Nothing is waiting.')
  if (graph.isPartial)
    printMessage('The graph is incomplete. Run `holdfast limit ls` and `holdfast queue ls` to see the totals.')
}

function rowsOf({ participants, names, cycles }: WaitGraph): GraphLine[] {
  const instanceNames = new Map(participants.map(({ id, instanceName }) => [id, instanceName]))
  return names.flatMap(({ id, kind, key, namespace, label, queue, holders, waits }) =>
    waits.map(({ participant, mode, since, forMs, requests, behind }) => ({
      ...{
        waiter: participant,
        waiterName: instanceNames.get(participant) ?? null,
        kind,
        key,
        namespace,
        label,
        queue,
        mode,
        since,
        forMs,
        requests,
      },
      blockers: behind === null ? [...new Set(holders.map((holding) => holding.participant))] : [behind],
      isDeadlocked: cycles.some(
        ({ isCertain, sides }) =>
          isCertain && sides.some((side) => side.participant === participant && side.waitsFor === id),
      ),
    })),
  )
}
