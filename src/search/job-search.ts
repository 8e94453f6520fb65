import { UsageError } from '../base/errors.js'
import { type JobState, jobStates, unendedStates } from '../base/job-states.js'
import { suggest } from '../base/suggest.js'
import { readSearch } from './search.js'

/** Reasons why a job is waiting. With `attempt`, the job is waiting for its next attempt after a failure or a crash. */
export const jobWaits = ['time', 'attempt', 'lane', 'jobs'] as const
export type JobWait = (typeof jobWaits)[number]

/** States that a search can contain. `failed` matches a job that is not done and has a failed or crashed attempt. */
export const searchableStates = [...jobStates, 'failed'] as const

/** Keywords of a search, each with a description of its value and an example. `input` and `meta` are followed by a path. */
export const jobSearchWords = {
  queue: { text: 'the name of a queue', example: 'queue:mail' },
  state: { text: searchableStates.join(', '), example: 'state:buried' },
  kind: { text: 'the name of a job definition', example: 'kind:send-email' },
  lane: { text: 'the name of a lane', example: 'lane:shop:7' },
  waits: { text: `what the job is waiting for: ${jobWaits.join(', ')}`, example: 'waits:attempt' },
  input: { text: 'a path in the job input, followed by a value', example: 'input.user:42' },
  meta: { text: "a path in the job's meta, followed by a value", example: 'meta.tags:billing' },
  id: { text: 'the number of a job', example: 'id:17' },
} as const

/** Value that a job must have at a path in its input or its meta. If the part at the path is a list, the list must contain the value. */
export interface PathValue {
  readonly path: readonly string[]
  readonly value: string
}

/** Parsed search. A job must match one value from each list, and all entries of `input` and `meta`. */
export interface JobSearch {
  readonly ids: readonly number[]
  readonly queues: readonly string[]
  readonly kinds: readonly string[]
  readonly lanes: readonly string[]
  /** States to match. All states if the search does not name a state. */
  readonly states: readonly JobState[]
  /** Subset of `states` that matches only jobs with a failed attempt. */
  readonly onlyFailed: readonly JobState[]
  readonly waits: readonly JobWait[]
  readonly input: readonly PathValue[]
  readonly meta: readonly PathValue[]
}

/** The states that a job with a failed attempt can have. */
const failingStates: readonly JobState[] = [...unendedStates, 'buried']

/**
 * Parses a search for jobs. Throws a `UsageError` for an invalid search.
 *
 * @example
 * readJobSearch('queue:mail state:failed input.user:42')
 */
export function readJobSearch(text: string): JobSearch {
  const found = {
    ids: [] as number[],
    queues: [] as string[],
    kinds: [] as string[],
    lanes: [] as string[],
    waits: [] as JobWait[],
    input: [] as PathValue[],
    meta: [] as PathValue[],
  }
  const states = new Set<(typeof searchableStates)[number]>()
  const terms = readSearch(text)
  for (const { word, value } of terms) {
    if (word === null) found.ids.push(readId(value, text))
    else if (word === 'id') found.ids.push(readId(value))
    else if (word === 'queue') found.queues.push(value)
    else if (word === 'kind') found.kinds.push(value)
    else if (word === 'lane') found.lanes.push(value)
    else if (word === 'state') states.add(oneOf('state', value, searchableStates))
    else if (word === 'waits') found.waits.push(oneOf('waits', value, jobWaits))
    else if (word === 'input' || word.startsWith('input.')) found.input.push({ path: pathOf(word), value })
    else if (word === 'meta' || word.startsWith('meta.')) found.meta.push({ path: pathOf(word), value })
    else throw unknownWord(word)
  }
  if (found.ids.length > 0 && found.ids.length < terms.length) {
    throw new UsageError(
      'Expected a job number without other search terms, got other terms as well',
      `For example, ${found.ids[0]}`,
    )
  }
  return { ...found, ...statesOf(states, found.waits.length > 0) }
}

function statesOf(
  wanted: ReadonlySet<(typeof searchableStates)[number]>,
  mustWait: boolean,
): Pick<JobSearch, 'states' | 'onlyFailed'> {
  if (mustWait) {
    if (wanted.size > 0 && !wanted.has('waiting')) {
      throw new UsageError(
        `Expected state:waiting together with waits:, got state:${[...wanted].join(' state:')}`,
        'The keyword waits: matches only jobs in the state "waiting".',
      )
    }
    return { states: ['waiting'], onlyFailed: [] }
  }
  if (wanted.size === 0) return { states: jobStates, onlyFailed: [] }
  const onlyFailed = wanted.has('failed') ? failingStates.filter((state) => !wanted.has(state)) : []
  return { states: jobStates.filter((state) => wanted.has(state) || onlyFailed.includes(state)), onlyFailed }
}

function readId(value: string, text?: string): number {
  const id = Number(value)
  if (/^\d{1,15}$/.test(value) && id > 0) return id
  if (text === undefined) throw new UsageError(`Expected id to be a job number, got ${JSON.stringify(value)}`)
  throw new UsageError(
    `Expected a job number, or a keyword such as kind:, got ${JSON.stringify(value)}`,
    `For example, kind:${/^[\w.-]+$/.test(value) ? value : 'send-email'}`,
  )
}

function oneOf<const Word extends string>(word: string, value: string, words: readonly Word[]): Word {
  const found = words.find((one) => one === value)
  if (found !== undefined) return found
  const meant = suggest(value, words)
  const hint = meant && `Did you mean ${word}:${meant}?`
  throw new UsageError(`Expected ${word} to be one of ${words.join(', ')}, got ${JSON.stringify(value)}`, hint)
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
    meant ? `Did you mean ${meant}:?` : 'A value that contains a colon needs a keyword, for example lane:shop:7',
  )
}
