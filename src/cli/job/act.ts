import { UsageError } from '../../base/index.js'
import { writeSearchTerm } from '../../search/index.js'
import { actOnJobs, jobId, runAct } from '../act.js'
import type { Settings } from '../settings.js'
import { checkEither, searchText } from './filter.js'

type Verb = 'retry' | 'cancel' | 'discard'

/** Runs an act on the jobs with the given IDs, or on all jobs that the search options find. */
export const actOnFound = (verb: Verb) => async (settings: Settings, words: readonly string[]) => {
  checkEither(settings, words)
  if (words.length > 0 && verb !== 'discard') return actOnJobs(`${verb}-job`)(settings, words)
  if (words.length > 0) words.forEach(jobId)
  const search = words.length > 0 ? writeSearchTerm('id', words.join(',')) : searchText(settings)
  if (search.length > 2_000) throw new UsageError(`Expected a search of at most 2000 characters, got ${search.length}`)
  return runAct(settings, `${verb}-jobs`, { search, namespace: settings.name('namespace') })
}
