import { parseDuration } from '../base/durations.js'
import { UsageError } from '../base/errors.js'
import { type JobState, jobStates } from '../base/job-states.js'
import { suggest } from '../base/suggest.js'
import { readSearch, writeSearchValue } from './search.js'

/** Reasons why a job is waiting. With `attempt`, the job is waiting for its next attempt after a failure or a crash. */
export type JobWait = 'time' | 'attempt' | 'lane' | 'budget' | 'jobs'

/**
 * States that people see and search for, with the jobs that they match. `waiting` matches the jobs of the five states before it. The
 * dashboard and the command line use these words.
 */
const statesByWord = {
  running: { state: 'running' },
  ready: { state: 'ready' },
  scheduled: { state: 'waiting', waits: 'time' },
  retrying: { state: 'waiting', waits: 'attempt' },
  'in-lane': { state: 'waiting', waits: 'lane' },
  'in-budget': { state: 'waiting', waits: 'budget' },
  blocked: { state: 'waiting', waits: 'jobs' },
  waiting: { state: 'waiting' },
  failed: { state: 'buried' },
  done: { state: 'done' },
  cancelled: { state: 'cancelled' },
  expired: { state: 'expired' },
  discarded: { state: 'discarded' },
} as const satisfies Readonly<Record<string, { readonly state: JobState; readonly waits?: JobWait }>>

export type SearchState = keyof typeof statesByWord
export const searchStates = Object.keys(statesByWord) as SearchState[]

/** Returns the most specific word for a job's state. Without `waits`, a waiting job is `waiting`. */
export function searchStateOf({
  state,
  waits,
}: {
  readonly state: JobState
  readonly waits?: JobWait | null
}): SearchState {
  const matches = (word: SearchState) => {
    const one: { readonly state: JobState; readonly waits?: JobWait } = statesByWord[word]
    return one.state === state && (one.waits === undefined || one.waits === waits)
  }
  return searchStates.find(matches)!
}

/** Keywords of a search, each with a description of its value and an example. `input` and `meta` are followed by a path. */
export const jobSearchWords = {
  queue: { text: 'the name of a queue', example: 'queue:mail' },
  state: { text: searchStates.join(', '), example: 'state:failed' },
  kind: { text: 'the name of a job definition', example: 'kind:send-email' },
  error: { text: 'a part of the last error (case is ignored)', example: 'error:"upstream said 503"' },
  since: { text: "a duration or a time, after which the job's state changed", example: 'since:1h' },
  until: { text: "a duration or a time, before which the job's state changed", example: 'until:2030-01-31T18:00Z' },
  lane: { text: 'the name of a lane', example: 'lane:shop:7' },
  input: { text: 'a path in the job input, followed by a value', example: 'input.user:42' },
  meta: { text: "a path in the job's meta, followed by a value", example: 'meta.tags:billing' },
  id: { text: 'one or more job numbers', example: 'id:17,18' },
} as const

/** Value that a job must have at a path in its input or its meta. If the part at the path is a list, the list must contain the value. */
export interface PathValue {
  readonly path: readonly string[]
  readonly value: string
}

/** A time, or a number of milliseconds before the search runs. */
export type SearchTime = Date | number

/** Parsed search. A job must match one value from each list, and all entries of `errors`, `words`, `input` and `meta`. */
export interface JobSearch {
  readonly ids: readonly number[]
  readonly queues: readonly string[]
  readonly kinds: readonly string[]
  readonly lanes: readonly string[]
  /** States to match. All states if the search contains no state. */
  readonly states: readonly JobState[]
  /** Reasons to match if the job is waiting. All reasons if the list is empty. */
  readonly waits: readonly JobWait[]
  /** Texts that the job's last error contains. */
  readonly errors: readonly string[]
  /** Words without a keyword. Each word is the job's number, or a part of its kind, its queue or its last error. */
  readonly words: readonly string[]
  readonly input: readonly PathValue[]
  readonly meta: readonly PathValue[]
  /** The job's state changed at or after this time. */
  readonly since: SearchTime | null
  /** The job's state changed before this time. */
  readonly until: SearchTime | null
}

/**
 * Parses a search for jobs. Throws a `UsageError` for an invalid search.
 *
 * @example
 * readJobSearch('queue:mail state:failed since:1h input.user:42 timeout')
 */
export function readJobSearch(text: string): JobSearch {
  const found = {
    ids: [] as number[],
    queues: [] as string[],
    kinds: [] as string[],
    lanes: [] as string[],
    errors: [] as string[],
    words: [] as string[],
    input: [] as PathValue[],
    meta: [] as PathValue[],
    since: null as SearchTime | null,
    until: null as SearchTime | null,
  }
  const states = new Set<SearchState>()
  for (const { word, value } of readSearch(text)) {
    if (word === null) found.words.push(value.toLowerCase())
    else if (word === 'id') found.ids.push(...value.split(',').map(readId))
    else if (word === 'queue') found.queues.push(value)
    else if (word === 'kind') found.kinds.push(value)
    else if (word === 'lane') found.lanes.push(value)
    else if (word === 'state') states.add(readState(value))
    else if (word === 'error') found.errors.push(value.toLowerCase())
    else if (word === 'since' || word === 'until') found[word] = readTime(word, value)
    else if (word === 'input' || word.startsWith('input.')) found.input.push({ path: pathOf(word), value })
    else if (word === 'meta' || word.startsWith('meta.')) found.meta.push({ path: pathOf(word), value })
    else throw unknownWord(word)
  }
  return { ...found, ...statesOf(states) }
}

function statesOf(words: ReadonlySet<SearchState>): Pick<JobSearch, 'states' | 'waits'> {
  if (words.size === 0) return { states: jobStates, waits: [] }
  const wanted = [...words].map((word) => statesByWord[word] as { state: JobState; waits?: JobWait })
  const waiting = wanted.filter(({ state }) => state === 'waiting')
  return {
    states: jobStates.filter((state) => wanted.some((one) => one.state === state)),
    waits: waiting.some(({ waits }) => waits === undefined) ? [] : waiting.map(({ waits }) => waits!),
  }
}

function readId(value: string): number {
  const id = Number(value)
  if (/^\d{1,15}$/.test(value) && id > 0) return id
  throw new UsageError(`Expected id to be a job number, got ${JSON.stringify(value)}`)
}

/** Returns the state for a word. The API's `buried` is also accepted, because `jobs.find` and `--json` print it. */
export function searchStateFor(word: string): SearchState | undefined {
  return word === 'buried' ? 'failed' : searchStates.find((one) => one === word)
}

function readState(value: string): SearchState {
  const found = searchStateFor(value)
  if (found !== undefined) return found
  const meant = suggest(value, searchStates)
  const hint = meant && `Did you mean state:${meant}?`
  throw new UsageError(`Expected state to be one of ${searchStates.join(', ')}, got ${JSON.stringify(value)}`, hint)
}

/** Reads a duration such as `1h`, which means one hour ago, or a time with its time zone, or a date in UTC. */
function readTime(word: string, value: string): SearchTime {
  const ms = parseDuration(value)
  if (ms !== undefined) return ms
  const at = new Date(value)
  const isWhole = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(value)
  if (isWhole && !Number.isNaN(at.getTime())) return at
  throw new UsageError(
    `Expected ${word} to be a duration or a time with a time zone, got ${JSON.stringify(value)}`,
    `For example, ${word}:1h or ${word}:2030-01-31T18:00Z`,
  )
}

function pathOf(word: string): string[] {
  const path = word.split('.').slice(1)
  if (!path.includes('')) return path
  throw new UsageError(`Expected a path such as input.user.id or meta.tags, got ${JSON.stringify(word)}`)
}

function unknownWord(word: string): UsageError {
  const words = Object.keys(jobSearchWords)
  const meant = suggest(word, words)
  return new UsageError(
    `Expected one of ${words.join(', ')} before the colon, got ${JSON.stringify(word)}`,
    meant ? `Did you mean ${meant}:?` : `To search for a text that contains a colon, quote it: ${quoted(word)}`,
  )
}

/** An example of a quoted text, which starts with the given word. */
function quoted(word: string): string {
  return /^[\w.-]{1,30}$/.test(word) ? `"${word}:…"` : '"…"'
}

/** Formats a search term. */
export function writeSearchTerm(word: string, value: string): string {
  return `${word}:${writeSearchValue(value)}`
}

/** Returns the state words of a valid search. */
export function stateWordsOf(text: string): readonly string[] {
  return readSearch(text).flatMap(({ word, value }) => (word === 'state' ? [searchStateFor(value) ?? value] : []))
}

/** Replaces the states of a valid search. An empty state removes them. */
export function withState(text: string, state: SearchState | ''): string {
  const others = readSearch(text)
    .filter(({ word }) => word !== 'state')
    .map(({ from, to }) => text.slice(from, to))
  return [...(state === '' ? [] : [writeSearchTerm('state', state)]), ...others].join(' ')
}
