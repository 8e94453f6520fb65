import type { WaitGraph } from '../../observe/index.js'
import { nameText, participantText } from './texts.js'

/** Returns the graph for Graphviz, from waiter to name to holder. Deadlocks are red, and possible ones dashed red. */
export function dotOf({ participants, names, cycles }: WaitGraph): string[] {
  const styles = new Map<string, string>()
  for (const { isCertain, sides } of [...cycles].reverse()) {
    const style = `color="red"${isCertain ? ', penwidth=2' : ', style="dashed"'}`
    for (const { participant, holds, waitsFor } of sides) {
      styles.set(`${participant} ${waitsFor}`, style).set(`${holds} ${participant}`, style)
    }
  }
  // A job that is not running is both a name and that name's holder. The job becomes one node without an edge to
  // itself.
  const isName = (id: string) => names.some((name) => name.id === id)
  const edge = (from: string, to: string) => {
    const style = styles.get(`${from} ${to}`)
    return `  ${quote(from)} -> ${quote(to)}${style ? ` [${style}]` : ''}`
  }
  return [
    'digraph holdfast {',
    '  rankdir=LR',
    ...participants
      .filter(({ id }) => !isName(id))
      .map((participant) => `  ${quote(participant.id)} [label=${quote(participantText(participant))}]`),
    ...names.map((name) => `  ${quote(name.id)} [shape=box, label=${quote(nameText(name))}]`),
    ...names.flatMap(({ id, waits, holders }) => [
      ...waits.map(({ participant }) => edge(participant, id)),
      ...holders.filter(({ participant }) => participant !== id).map(({ participant }) => edge(id, participant)),
    ]),
    '}',
  ]
}

function quote(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
}
