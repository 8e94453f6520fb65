import type { BlockedName, Blocker, Participant, WaitGraph } from '../../observe/index.js'
import { type Colour, countText, paint, visible, worstInView } from '../output.js'
import type { Settings } from '../settings.js'
import { displayWidth } from '../table.js'
import { remedyCommands } from './remedies.js'
import { cycleSideText, holdingText, nameText, participantText, waitText } from './texts.js'

/** Maximum number of waiters to show if they do not block other participants. */
const maxShown = 10

interface Part {
  readonly text: string
  readonly colour?: Colour
}

/** A line of the tree with the branches below it. The line may be wrapped between its parts. */
interface Branch {
  readonly parts: readonly Part[]
  readonly below: readonly Branch[]
}

interface DrawContext {
  readonly settings: Settings
  readonly byId: ReadonlyMap<string, Participant>
  /** Holders in a cycle, as `participant name`. Their remedies are shown, because one of them must release its name. */
  readonly inCycle: ReadonlySet<string>
}

/** Draws the cycles and then the trees, starting with the worst. If the screen is too small, the worst come last. */
export function linesOf(settings: Settings, graph: WaitGraph): string[] {
  const byId = new Map(graph.participants.map((participant) => [participant.id, participant]))
  const sides = graph.cycles.flatMap((cycle) => cycle.sides)
  const inCycle = new Set(sides.map(({ participant, holds }) => `${participant} ${holds}`))
  const trees = graph.roots.map((root) => branchOf({ settings, byId, inCycle }, root, true))
  return worstInView([...cycleBranches(graph), ...trees].map((branch) => drawBranch(settings, branch))).flat()
}

function cycleBranches(graph: WaitGraph): Branch[] {
  return graph.cycles.map(({ isCertain, sides }) => ({
    parts: isCertain
      ? [{ text: 'Deadlock: each participant is waiting for a name that the next one holds.', colour: 'red' }]
      : [
          { text: 'Possible deadlock:', colour: 'yellow' },
          { text: ' each participant is waiting for a name that the next one holds.' },
          { text: ' It is a deadlock if the same call holds one name and waits for the other.' },
        ],
    below: sides.map((side) => ({ parts: cycleSideText(graph, side).map((text) => ({ text })), below: [] })),
  }))
}

function branchOf(context: DrawContext, { participant, wait, isRepeated, blocked }: Blocker, isRoot: boolean): Branch {
  const parts: Part[] = [
    { text: participantText(participant) },
    ...(wait ? [{ text: ` ${waitText(wait, context.byId)}`, colour: 'yellow' as const }] : []),
    ...(isRepeated ? [{ text: ' … shown elsewhere' }] : []),
  ]
  return { parts, below: blocked.map((name) => nameBranch(context, participant, name, isRoot)) }
}

function nameBranch(
  context: DrawContext,
  participant: Participant,
  { name, holding, isRepeated, waiters }: BlockedName,
  isRoot: boolean,
): Branch {
  const namespace = name.namespace && name.namespace !== 'default' ? ` in ${visible(name.namespace)}` : ''
  // The parent line already names the job.
  const isOwnJob = holding?.how === 'job' && participant.job !== null
  const leaves = waiters.filter(({ blocked, isRepeated }) => blocked.length === 0 && !isRepeated)
  const hidden = new Set(leaves.slice(maxShown))
  const shown = waiters.filter((waiter) => !hidden.has(waiter))
  const unlisted = name.waiting - (name.kind === 'election' ? 0 : name.waits.length)
  const more = isRepeated ? 0 : unlisted + hidden.size
  const isBlocking = isRoot || context.inCycle.has(`${participant.id} ${name.id}`)
  const remedies = isBlocking ? remedyCommands(context.settings.text('schema'), name, holding, participant) : []
  return {
    parts: [
      ...(isOwnJob ? [{ text: 'its end' }] : [{ text: nameText(name) }, { text: namespace, colour: 'dim' as const }]),
      ...(isOwnJob ? [] : [{ text: `, ${holdingText(holding)}`, colour: 'dim' as const }]),
      ...(isRepeated ? [{ text: ' … its waiters are shown elsewhere' }] : []),
    ],
    below: [
      ...remedies.map((remedy, at) => leaf({ text: `${at === 0 ? 'remedy' : 'or'}: ${remedy}`, colour: 'green' })),
      ...shown.map((waiter) => branchOf(context, waiter, false)),
      ...(more > 0 ? [leaf({ text: moreText(name.kind, more, shown.length) })] : []),
    ],
  }
}

function moreText(kind: string, more: number, shown: number): string {
  if (kind === 'election') return countText(more, 'candidate')
  return `${shown > 0 ? 'and ' : ''}${more} more waiting`
}

function leaf(part: Part): Branch {
  return { parts: [part], below: [] }
}

function drawBranch(settings: Settings, branch: Branch, first = '', rest = ''): string[] {
  const { below } = branch
  return [
    ...layOutParts(settings, branch.parts, first, `${rest}${below.length > 0 ? '│  ' : '   '}`),
    ...below.flatMap((one, at) =>
      at === below.length - 1
        ? drawBranch(settings, one, `${rest}└─ `, `${rest}   `)
        : drawBranch(settings, one, `${rest}├─ `, `${rest}│  `),
    ),
  ]
}

/** Wraps the parts to the terminal's width. Never splits a command, because users copy commands. */
function layOutParts(settings: Settings, parts: readonly Part[], first: string, rest: string): string[] {
  const width = process.stdout.isTTY ? process.stdout.columns || 80 : Number.POSITIVE_INFINITY
  const lines = [first]
  let used = displayWidth(first)
  for (const { text, colour } of parts.filter(({ text }) => text !== '')) {
    const breaks = used + displayWidth(text) > width && lines.at(-1) !== first
    const shownText = breaks ? text.replace(/^[, ]+/, '') : text
    if (breaks) lines.push(rest)
    used = (breaks ? displayWidth(rest) : used) + displayWidth(shownText)
    lines[lines.length - 1] += paint(settings, shownText, colour)
  }
  return lines
}
