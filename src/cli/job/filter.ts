import { UsageError } from '../../base/index.js'
import { type JobSearch, readJobSearch, searchStateFor, searchStates, writeSearchTerm } from '../../search/index.js'
import type { Settings } from '../settings.js'

const terms = ['queue', 'kind', 'error', 'since', 'until'] as const
const options = [...terms, 'state', 'search'] as const

/** Returns the search that a command's options describe. It is empty if no option was given. */
export function searchText(settings: Settings): string {
  // Accepts the state of the API, too, without listing a second word for one state.
  const state = searchStateFor(settings.text('state') ?? '') ?? settings.oneOf('state', ...searchStates)
  const given = terms.flatMap((term) => {
    const value = term === 'queue' || term === 'kind' ? settings.name(term) : settings.text(term)
    return value === undefined ? [] : [writeSearchTerm(term, value)]
  })
  return [...given, state && writeSearchTerm('state', state), settings.text('search')].filter(Boolean).join(' ')
}

export function readSearchOptions(settings: Settings): JobSearch {
  return readJobSearch(searchText(settings))
}

/** Throws if a command has both IDs and search options, or neither. */
export function checkEither(settings: Settings, ids: readonly string[]): void {
  const given = options.find((option) => settings.fromCommandLine(option) !== undefined)
  if (ids.length > 0 && given !== undefined) throw new UsageError(`Expected IDs of jobs or --${given}, got both`)
  if (ids.length === 0 && searchText(settings) === '') {
    throw new UsageError(
      'Expected the IDs of jobs, or a search, got neither',
      'For example, give --state failed --kind send-email --since 1h.',
    )
  }
}
