// What the views say, as long as somebody looks. One stream for the whole tab, opened anew when what is looked at changes.
import { useEffect, useReducer } from 'preact/hooks'
import { ApiError, api, keyOf } from './api.js'
import { now, syncClock } from './clock.js'
import type { ErrorBody, ParamsOf, ViewData, ViewFailure, ViewName, ViewSnapshot } from './wire.js'

/** What is known of a view. */
export interface LiveView<Data> {
  /** `jobs?search=mail` */
  readonly key: string
  /** The last picture; undefined before the first. */
  readonly data: Data | undefined
  /** When it last changed, by the database's clock: what only counts on is not told again. */
  readonly at: string | undefined
  /** Why there is nothing new. */
  readonly failure: ErrorBody | undefined
  /** Since when, by the database's clock. */
  readonly failedAt: string | undefined
  /** Whether the picture may no longer be true. */
  readonly stale: boolean
}

/** `database-unreachable`: the server of the dashboard answers. Its database does not. `idle`: the tab is hidden. */
export type Connection =
  | { readonly state: 'connecting' | 'live' | 'database-unreachable' | 'idle' }
  | { readonly state: 'lost'; readonly since: number; readonly failure: ErrorBody }

interface ViewEntry {
  data: unknown
  at: string | undefined
  failure: ErrorBody | undefined
  failedAt: string | undefined
  readonly watchers: Set<() => void>
  /** Until when it is kept though nobody looks: who comes back sees the last picture at once. */
  forgetTimer: ReturnType<typeof setTimeout> | undefined
}

/** Views come and go together when a page does. */
const openDelayMs = 40
const forgetMs = 30_000
/** Nobody looks at a hidden tab for long, so nothing is asked for it. */
const hiddenMs = 60_000
const retryMs = [500, 1_000, 2_000, 4_000, 8_000]

const entries = new Map<string, ViewEntry>()
const connectionWatchers = new Set<() => void>()
let connection: Connection = { state: 'connecting' }
let source: EventSource | undefined
let openedKeys = ''
let openTimer: ReturnType<typeof setTimeout> | undefined
let idleTimer: ReturnType<typeof setTimeout> | undefined
let retryTimer: ReturnType<typeof setTimeout> | undefined
let failures = 0

/** Looks at a view for as long as the component is there. */
export function useView<Name extends ViewName>(name: Name, params: ParamsOf<Name>): LiveView<ViewData<Name>> {
  const key = keyOf(name, params as object)
  const [, changed] = useReducer((count: number) => count + 1, 0)
  useEffect(() => watch(key, () => changed(undefined)), [key])
  const entry = entries.get(key)
  return {
    key,
    data: entry?.data as ViewData<Name> | undefined,
    at: entry?.at,
    failure: entry?.failure,
    failedAt: entry?.failedAt,
    stale: entry?.failure !== undefined || connection.state === 'lost',
  }
}

/** How the stream is. */
export function useConnection(): Connection {
  const [, changed] = useReducer((count: number) => count + 1, 0)
  useEffect(() => {
    const watcher = () => changed(undefined)
    connectionWatchers.add(watcher)
    return () => void connectionWatchers.delete(watcher)
  }, [])
  return connection
}

function watch(key: string, watcher: () => void): () => void {
  let entry = entries.get(key)
  if (!entry) {
    entry = {
      data: undefined,
      at: undefined,
      failure: undefined,
      failedAt: undefined,
      watchers: new Set(),
      forgetTimer: undefined,
    }
    entries.set(key, entry)
  }
  clearTimeout(entry.forgetTimer)
  entry.watchers.add(watcher)
  watcher()
  scheduleOpen()
  return () => {
    entry.watchers.delete(watcher)
    if (entry.watchers.size > 0) return
    entry.forgetTimer = setTimeout(() => entries.delete(key), forgetMs)
    scheduleOpen()
  }
}

function scheduleOpen(): void {
  clearTimeout(openTimer)
  openTimer = setTimeout(open, openDelayMs)
}

function open(): void {
  const keys = [...entries].filter(([, { watchers }]) => watchers.size > 0).map(([key]) => key)
  const wantedKeys = keys.sort().join('\n')
  if (source && source.readyState !== EventSource.CLOSED && wantedKeys === openedKeys) return
  clearTimeout(retryTimer)
  source?.close()
  source = undefined
  openedKeys = wantedKeys
  if (keys.length === 0) return
  if (connection.state === 'idle') setConnection({ state: 'connecting' })
  const query = new URLSearchParams(keys.map((key) => ['view', key]))
  const stream = new EventSource(`api/live?${query}`)
  source = stream
  stream.addEventListener('open', () => {
    failures = 0
    setConnection({ state: 'live' })
  })
  stream.addEventListener('view', ({ data }: MessageEvent<string>) => {
    const { view, at, data: picture } = JSON.parse(data) as ViewSnapshot
    syncClock(at)
    setConnection({ state: 'live' })
    updateEntry(view, { data: picture, at, failure: undefined, failedAt: undefined })
  })
  stream.addEventListener('failure', ({ data }: MessageEvent<string>) => {
    const { view, error } = JSON.parse(data) as ViewFailure
    if (error.code === 'DATABASE_UNREACHABLE') setConnection({ state: 'database-unreachable' })
    updateEntry(view, { failure: error, failedAt: entries.get(view)?.failedAt ?? new Date(now()).toISOString() })
  })
  stream.addEventListener('error', () => {
    if (source === stream) void onStreamEnd()
  })
}

/** The browser does not say why a stream ended, so the server is asked, and then the stream is opened anew. */
async function onStreamEnd(): Promise<void> {
  source?.close()
  source = undefined
  clearTimeout(retryTimer)
  const failure = await api.me().then(
    () => undefined,
    (error: unknown) => error as ApiError,
  )
  const since = connection.state === 'lost' ? connection.since : performance.now()
  if (failure instanceof ApiError) setConnection({ state: 'lost', since, failure })
  else if (failures > 0) {
    setConnection({
      state: 'lost',
      since,
      failure: { code: 'NO_STREAM', message: 'The stream of news ends again and again.', hint: null },
    })
  }
  // While the server was asked, another stream may have been opened.
  if (source) return
  const waitMs = retryMs[Math.min(failures, retryMs.length - 1)]!
  failures += 1
  clearTimeout(retryTimer)
  retryTimer = setTimeout(open, waitMs)
}

function updateEntry(key: string, changed: Partial<ViewEntry>): void {
  const entry = entries.get(key)
  if (!entry) return
  Object.assign(entry, changed)
  for (const watcher of entry.watchers) watcher()
}

function setConnection(next: Connection): void {
  if (next.state === connection.state && next.state !== 'lost') return
  connection = next
  for (const watcher of connectionWatchers) watcher()
  for (const { watchers } of entries.values()) for (const watcher of watchers) watcher()
}

/** The server did not answer something else: then the stream may be dead, too, which nobody is told of a cable that was pulled. */
export function checkStream(): void {
  if (connection.state === 'live' || connection.state === 'database-unreachable') void onStreamEnd()
}

/** Tries at once instead of in a while. */
export function reconnect(): void {
  if (connection.state !== 'lost') return
  failures = 0
  open()
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(idleTimer)
  if (document.hidden) {
    idleTimer = setTimeout(() => {
      source?.close()
      source = undefined
      clearTimeout(retryTimer)
      setConnection({ state: 'idle' })
    }, hiddenMs)
  } else if (!source) open()
})
