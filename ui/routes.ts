// The current page and its parameters, in the URL fragment (`#/jobs?search=mail`). Browsers do not send the fragment.
import { useEffect, useState } from 'preact/hooks'
import { writeSearchValue } from '../src/search/index.js'

export const pages = [
  // Only in a dashboard with several databases.
  { id: 'databases', title: 'All databases', short: 'All', letter: 'a' },
  { id: 'now', title: 'Now', short: 'Now', letter: 'n' },
  { id: 'locks', title: 'Locks and leases', short: 'Locks', letter: 'l' },
  { id: 'schedules', title: 'Schedules', short: 'Schedules', letter: 's' },
  { id: 'jobs', title: 'Jobs', short: 'Jobs', letter: 'j' },
  { id: 'deliveries', title: 'Deliveries', short: 'Deliveries', letter: 'd' },
  { id: 'limits', title: 'Limits', short: 'Limits', letter: 'm' },
  { id: 'instances', title: 'Instances', short: 'Instances', letter: 'i' },
] as const

export type PageId = (typeof pages)[number]['id']

/** Parameters that links to other pages keep. */
const keptParams = ['database', 'namespace'] as const

/** Each page's additional parameters. */
interface ParamNames {
  databases: never
  now: never
  locks: 'search' | 'key' | 'hours' | 'after'
  schedules: 'search' | 'after' | 'schedule' | 'of' | 'page' | 'minutes'
  jobs: 'search' | 'id' | 'after'
  deliveries: 'after' | 'prefix' | 'state' | 'of' | 'key'
  limits: 'search' | 'all' | 'limit' | 'of'
  instances: 'search' | 'instance'
}

export type ParamsOf<Id extends PageId = PageId> = {
  readonly [Name in (typeof keptParams)[number] | ParamNames[Id]]?: string | undefined
}

interface Route {
  readonly page: PageId
  readonly params: ParamsOf
}

function readRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const page = pages.find(({ id }) => id === path)?.id ?? 'now'
  return { page, params: Object.fromEntries(new URLSearchParams(query)) }
}

/** Returns a page's URL for the `href` of a link. Omits empty parameters. */
export function hrefOf<Id extends PageId>(page: Id, params: ParamsOf<Id> = {}): string {
  const query = new URLSearchParams()
  for (const name of keptParams) {
    const value = name in params ? params[name] : readRoute(location.hash).params[name]
    if (value) query.set(name, value)
  }
  for (const [name, value] of Object.entries<string | undefined>(params)) if (value) query.set(name, value)
  return `#/${page}${query.size > 0 ? `?${query}` : ''}`
}

/** Returns the link to a queue's jobs, in the chosen namespace unless another one is given. */
export function hrefOfQueue(name: string, database = currentDatabase(), namespace?: string): string {
  const search = `queue:${writeSearchValue(name)}`
  return hrefOf('jobs', { search, database, ...(namespace !== undefined && { namespace }) })
}

/** Name of the database in the URL. Undefined if the dashboard has only one database. */
export function currentDatabase(): string | undefined {
  return readRoute(location.hash).params.database
}

/** Opens the same page, with the same search, for another database. */
export function switchDatabase(database: string): void {
  const { page, params } = readRoute(location.hash)
  const search = 'search' in params ? { search: params.search } : {}
  location.hash = hrefOf(page === 'databases' ? 'now' : page, { database, namespace: undefined, ...search })
}

/** Opens another page and adds an entry to the browser history. */
export function go<Id extends PageId>(page: Id, params: ParamsOf<Id> = {}): void {
  location.hash = hrefOf(page, params)
}

/** Changes parameters of the current page. `replace` is for typed text and adds no entry to the browser history. */
export function setParams(changed: ParamsOf, step: 'replace' | 'push' = 'replace') {
  const { page, params } = readRoute(location.hash)
  const href = hrefOf(page, { ...params, ...changed })
  if (href === location.hash) return
  if (step === 'push') location.hash = href
  else {
    // Uses the full URL, because the browser would resolve a bare fragment against `<base href>`.
    history.replaceState(null, '', location.pathname + location.search + href)
    dispatchEvent(new HashChangeEvent('hashchange'))
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash))
  useEffect(() => {
    const changed = () => setRoute(readRoute(location.hash))
    addEventListener('hashchange', changed)
    changed()
    return () => removeEventListener('hashchange', changed)
  }, [])
  return route
}

/** Returns the current page's parameters. The type argument names the page, as in `useParams<'jobs'>()`. */
export function useParams<Id extends PageId>(): ParamsOf<Id> {
  return useRoute().params
}
