// Visits all states of a model, breadth first. The first violation is therefore one of those with the shortest story.

/** Place of a statement in the SQL: a file below `src`, and a function or a named statement in the file. */
export type Sql = readonly [file: string, name: string]

export interface Step<State> {
  /** Sentence of the story that describes the step. */
  readonly text: string
  readonly to: State
}

export interface Action<State> {
  readonly name: string
  /** SQL that the action executes. Empty if the action belongs to a client, to the time or to a fault. */
  readonly sql: readonly Sql[]
  /** Everything that this action can do in a state. */
  readonly steps: (state: State) => readonly Step<State>[]
}

export interface Model<State> {
  readonly name: string
  readonly initial: State
  readonly actions: readonly Action<State>[]
  /** The guarantee that a state violates. */
  readonly violation: (state: State) => string | undefined
  /** The guarantee that is violated even if no more faults occur and enough time passes. */
  readonly violationAtRest: (state: State) => string | undefined
  /** The state in one line of the story. */
  readonly show: (state: State) => string
}

export interface Bound {
  readonly maxDepth?: number
  readonly maxStates?: number
}

export interface StoryLine {
  readonly text: string
  readonly shows: string
}

export interface Result {
  readonly states: number
  readonly steps: number
  /** Number of steps to the states that are farthest from the initial state. */
  readonly depth: number
  /** Whether all reachable states were visited. */
  readonly isComplete: boolean
  /** Number of steps of each action. */
  readonly taken: ReadonlyMap<string, number>
  readonly violation?: { readonly rule: string; readonly story: readonly StoryLine[] }
}

export function explore<State>(model: Model<State>, { maxDepth = Infinity, maxStates = Infinity }: Bound = {}): Result {
  const taken = new Map(model.actions.map(({ name }) => [name, 0]))
  const seen = new Set([hashOf(model.initial)])
  // For each state, the state before it, and which of that state's steps leads to it. Whole states would fill the memory.
  const parents = [-1]
  const choices = [-1]
  let layer = [model.initial]
  let firstOfLayer = 0
  let depth = 0
  let steps = 0
  const result = (isComplete: boolean, rule?: string): Result => ({
    states: parents.length,
    steps,
    depth,
    isComplete,
    taken,
    ...(rule === undefined ? {} : { violation: { rule, story: storyOf(model, parents, choices) } }),
  })
  while (layer.length > 0) {
    if (depth >= maxDepth || parents.length >= maxStates) return result(false)
    const next: State[] = []
    const firstOfNext = parents.length
    depth++
    for (const [at, state] of layer.entries()) {
      let choice = 0
      for (const action of model.actions) {
        const all = action.steps(state)
        if (all.length > 0) taken.set(action.name, taken.get(action.name)! + all.length)
        for (const { to } of all) {
          steps++
          const hash = hashOf(to)
          if (!seen.has(hash)) {
            seen.add(hash)
            parents.push(firstOfLayer + at)
            choices.push(choice)
            const rule = model.violation(to) ?? model.violationAtRest(to)
            if (rule !== undefined) return result(false, rule)
            next.push(to)
          }
          choice++
        }
      }
    }
    layer = next
    firstOfLayer = firstOfNext
  }
  depth--
  return result(true)
}

/** Repeats the steps that lead to the last state. */
function storyOf<State>(model: Model<State>, parents: readonly number[], choices: readonly number[]): StoryLine[] {
  const path: number[] = []
  for (let at = parents.length - 1; at > 0; at = parents[at]!) path.unshift(choices[at]!)
  let state = model.initial
  return path.map((choice) => {
    const { text, to } = model.actions.flatMap(({ steps }) => steps(state))[choice]!
    state = to
    return { text, shows: model.show(to) }
  })
}

/** Hash of 53 bits. Of a million states, two have the same hash with a probability of 0.006 %. */
function hashOf(state: unknown): number {
  high = 0xdeadbeef
  low = 0x41c6ce57
  mix(state)
  const mixed = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909)
  const other = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(mixed ^ (mixed >>> 13), 3266489909)
  return 4294967296 * (2097151 & other) + (mixed >>> 0)
}

let high = 0
let low = 0

function mix(value: unknown) {
  if (typeof value === 'number') mixNumber(value)
  else if (typeof value === 'string') for (let at = 0; at < value.length; at++) mixNumber(value.charCodeAt(at))
  else if (Array.isArray(value)) {
    mixNumber(-2 - value.length)
    for (const one of value) mix(one)
  } else if (value !== null && typeof value === 'object')
    for (const key in value) mix((value as Record<string, unknown>)[key])
  else mixNumber(value === null ? -1 : Number(value))
}

function mixNumber(value: number) {
  high = Math.imul(high ^ value, 2654435761)
  high = (high << 13) | (high >>> 19)
  low = Math.imul(low ^ value, 1597334677)
  low = (low << 15) | (low >>> 17)
}

/** For the name of a model. */
export const countOf = (faults: number) => (faults === 0 ? 'no faults' : faults === 1 ? '1 fault' : `${faults} faults`)

/** Copies a state, which consists of plain objects, arrays, texts, numbers and booleans. */
export function copy<Value>(value: Value): Value {
  if (Array.isArray(value)) return value.map(copy) as Value
  if (value === null || typeof value !== 'object') return value
  const result: Record<string, unknown> = {}
  for (const key in value) result[key] = copy(value[key])
  return result as Value
}
