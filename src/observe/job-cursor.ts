import { hasEnded, type JobState, jobStates, UsageError } from '../base/index.js'
import type { JobSearch, SearchTime } from '../search/index.js'

/** Sources of a search, in the order of their jobs. See `found_job` in `parts.sql`. */
const sources = ['id', 'running', 'failed', 'ready', 'skipped', 'waiting', 'stopped', 'done', 'archived'] as const

/** States of jobs that may be in `job_archive`. */
const archivedStates = jobStates.filter(hasEnded)
/** States of the source `stopped`. */
export const stoppedStates = ['cancelled', 'expired', 'discarded'] as const satisfies readonly JobState[]

/**
 * The position after which each source continues. An empty position is the start. A complete source has no position.
 */
export type Places = Readonly<Record<string, readonly number[]>>

/** Position at which a source stopped. */
export interface SourceState {
  readonly name: string
  /** Number of matching jobs that the source found, including jobs that did not fit on the page. */
  readonly found: number
  /** Last scanned position, if the source stopped because it had scanned many jobs. */
  readonly cutAt: readonly number[] | null
  /** Number of scanned jobs, if the source stopped early. */
  readonly scanned: number
}

/** Returns the start position of each source that a search reads. */
export function placesOf({ ids, words, states }: JobSearch): Places {
  const isRead: Readonly<Record<(typeof sources)[number], boolean>> = {
    id: ids.length > 0 || words.some((word) => /^[1-9]\d{0,14}$/.test(word)),
    running: states.includes('running'),
    failed: states.includes('buried'),
    ready: states.includes('ready'),
    skipped: states.includes('ready'),
    waiting: states.includes('waiting'),
    stopped: stoppedStates.some((state) => states.includes(state)),
    done: states.includes('done'),
    archived: archivedStates.some((state) => states.includes(state)),
  }
  const read = ids.length > 0 ? (['id'] as const) : sources.filter((source) => isRead[source])
  return Object.fromEntries(read.map((source) => [source, []]))
}

/** Returns the positions after which the next page starts. */
export function nextPlaces(
  places: Places,
  states: readonly SourceState[],
  shown: readonly { readonly source: string; readonly place: readonly number[] }[],
): Places {
  const next: Record<string, readonly number[]> = {}
  for (const { name, found, cutAt } of states) {
    const last = shown.filter(({ source }) => source === name)
    // A source whose jobs were all shown continues where its scan stopped.
    const place = last.length === found ? cutAt : (last.at(-1)?.place ?? places[name])
    if (place) next[name] = place
  }
  return next
}

/** Formats the positions as text, such as `failed:-17;waiting:`. */
export function writeCursor(places: Places): string {
  return Object.entries(places)
    .map(([source, place]) => `${source}:${place.join(',')}`)
    .join(';')
}

export function readCursor(text: string): Places {
  const pattern = new RegExp(`^(${sources.join('|')}):((-?\\d{1,19}(,-?\\d{1,19}){0,3})?)$`)
  const entries = text.split(';').map((part) => {
    const [, source, place] = pattern.exec(part) ?? []
    if (source === undefined) {
      throw new UsageError(
        `Expected a page position that this version returned, got ${JSON.stringify(text.slice(0, 100))}`,
      )
    }
    return [source, place ? place.split(',').map(Number) : []] as const
  })
  return Object.fromEntries(entries)
}

/** Returns milliseconds since 1970, or milliseconds before now as a negative number. */
export function timeParameter(time: SearchTime | null): number | null {
  if (time === null) return null
  return typeof time === 'number' ? -Math.max(time, 0.001) : time.getTime()
}
