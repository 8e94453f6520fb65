// Live data for views. Each tab has one event stream, which is reopened when the set of watched views changes.
import { useEffect, useReducer } from 'preact/hooks'
import { type ApiError, api, keyOf } from './api.js'
import { now, syncClock } from './clock.js'
import type { ErrorBody, ParamsOf, ViewData, ViewFailure, ViewName, ViewSnapshot } from './wire.js'

export interface LiveView<Data> {
  /** `jobs?search=mail`, or `eu:jobs?search=mail` */
  readonly key: string
  /** Last snapshot. Undefined before the first snapshot. */
  readonly data: Data | undefined
  /** Database time of the data's last change. A duration that only grows with time does not count as a change. */
  readonly at: string | undefined
  /** Error that prevents updates. Undefined if there is none. */
  readonly failure: ErrorBody | undefined
  /** Time when the failure started, according to the database clock. */
  readonly failedAt: string | undefined
  /** Whether the data may be out of date. */
  readonly stale: boolean
}

/** State of the event stream. `database-unreachable`: only the server responds. `idle`: the tab is hidden. */
export type Connection =
  | { readonly state: 'connecting' | 'live' | 'database-unreachable' | 'idle' }
  | { readonly state: 'lost'; readonly since: number; readonly failure: ErrorBody }

interface ViewEntry {
  data?: unknown
  at?: string
  failure?: ErrorBody | undefined
  failedAt?: string | undefined
  readonly watchers: Set<() => void>
  /** Timer that deletes an unwatched view. Until then, a reopened page shows the last snapshot immediately. */
  forgetTimer?: ReturnType<typeof setTimeout>
}

/**
 * Delay before the stream is reopened. When the page changes, several views change, and the delay lets them share one
 * new stream.
 */
const openDelayMs = 40
const forgetMs = 30_000
/** Time after which a hidden tab closes its stream. */
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

export function useView<Name extends ViewName>(name: Name, params: ParamsOf<Name>): LiveView<ViewData<Name>> {
  return useKeys<Name>([keyOf(name, params as object)])[0]!
}

/** Watches the same view in several databases. */
export function useViewIn<Name extends ViewName>(
  databases: readonly string[],
  name: Name,
  params: ParamsOf<Name>,
): readonly LiveView<ViewData<Name>>[] {
  return useKeys<Name>(databases.map((database) => keyOf(name, params as object, database)))
}

function useKeys<Name extends ViewName>(keys: readonly string[]): readonly LiveView<ViewData<Name>>[] {
  const redraw = useRedraw()
  useEffect(() => {
    const stops = keys.map((key) => watch(key, redraw))
    return () => {
      for (const stop of stops) stop()
    }
  }, [keys.join('\n')])
  return keys.map((key) => {
    const entry = entries.get(key)
    return {
      key,
      data: entry?.data as ViewData<Name> | undefined,
      at: entry?.at,
      failure: entry?.failure,
      failedAt: entry?.failedAt,
      stale: entry?.failure !== undefined || connection.state === 'lost',
    }
  })
}

export function useConnection(): Connection {
  const redraw = useRedraw()
  useEffect(() => {
    connectionWatchers.add(redraw)
    return () => void connectionWatchers.delete(redraw)
  }, [])
  return connection
}

function useRedraw(): () => void {
  return useReducer<number, void>((count) => count + 1, 0)[1]
}

function watch(key: string, watcher: () => void): () => void {
  let entry = entries.get(key)
  if (!entry) {
    entry = { watchers: new Set() }
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

function closeStream(): void {
  source?.close()
  source = undefined
  clearTimeout(retryTimer)
}

function scheduleOpen(): void {
  clearTimeout(openTimer)
  openTimer = setTimeout(open, openDelayMs)
}

function open(): void {
  const keys = [...entries].filter(([, { watchers }]) => watchers.size > 0).map(([key]) => key)
  const wantedKeys = keys.sort().join('\n')
  if (source && source.readyState !== EventSource.CLOSED && wantedKeys === openedKeys) return
  closeStream()
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
    const { view, at, data: snapshot } = JSON.parse(data) as ViewSnapshot
    syncClock(at)
    setConnection({ state: 'live' })
    updateEntry(view, { data: snapshot, at, failure: undefined, failedAt: undefined })
  })
  stream.addEventListener('failure', ({ data }: MessageEvent<string>) => {
    const { view, error } = JSON.parse(data) as ViewFailure
    updateEntry(view, { failure: error, failedAt: entries.get(view)?.failedAt ?? new Date(now()).toISOString() })
    // The page with all databases shows which databases are unreachable, and stays live while at least one database is
    // reachable.
    const isUnreachable = [...entries.values()].every(
      ({ watchers, failure }) => watchers.size === 0 || failure?.code === 'DATABASE_UNREACHABLE',
    )
    if (isUnreachable) setConnection({ state: 'database-unreachable' })
  })
  stream.addEventListener('error', () => {
    if (source === stream) void onStreamEnd()
  })
}

/** Requests `me`, because the browser does not report why a stream has ended. Then reopens the stream. */
async function onStreamEnd(): Promise<void> {
  closeStream()
  const error = await api.me().then(
    () => undefined,
    (error: ApiError) => error,
  )
  const noStream = { code: 'NO_STREAM', message: 'The connection for live updates keeps failing.', hint: null }
  const failure = error ?? (failures > 0 ? noStream : undefined)
  const since = connection.state === 'lost' ? connection.since : performance.now()
  if (failure) setConnection({ state: 'lost', since, failure })
  // Does nothing more if `open` has started another stream while the request was running.
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

/** Checks the stream after another request has failed. The browser does not detect a dead connection by itself. */
export function checkStream(): void {
  if (connection.state === 'live' || connection.state === 'database-unreachable') void onStreamEnd()
}

export function reconnect(): void {
  if (connection.state !== 'lost') return
  failures = 0
  open()
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(idleTimer)
  if (document.hidden) {
    idleTimer = setTimeout(() => {
      closeStream()
      setConnection({ state: 'idle' })
    }, hiddenMs)
  } else if (!source) open()
})
