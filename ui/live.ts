// What the views say, as long as somebody looks. One stream for the whole tab, opened anew when what is looked at changes.
import { useEffect, useReducer } from 'preact/hooks'
import { ApiError, api, keyOf } from './api.js'
import { heard, now } from './clock.js'
import type { ErrorSaid, ParamsOf, Picture, Says, TroubleSaid, ViewName } from './wire.js'

/** What is known of a view. */
export interface Live<Data> {
  /** `jobs?search=mail` */
  readonly key: string
  /** The last picture; undefined before the first. */
  readonly data: Data | undefined
  /** When it last changed, by the database's clock: what only counts on is not told again. */
  readonly at: string | undefined
  /** Why there is nothing new. */
  readonly trouble: ErrorSaid | undefined
  /** Since when, by the database's clock. */
  readonly troubleAt: string | undefined
  /** Whether the picture may no longer be true. */
  readonly stale: boolean
}

/** `blind`: the server of the dashboard answers, and its database does not. */
export type Connection =
  | { readonly state: 'connecting' | 'live' | 'blind' | 'resting' }
  | { readonly state: 'lost'; readonly since: number; readonly failure: ErrorSaid }

interface Entry {
  data: unknown
  at: string | undefined
  trouble: ErrorSaid | undefined
  troubleAt: string | undefined
  readonly watchers: Set<() => void>
  /** Until when it is kept though nobody looks: who comes back sees the last picture at once. */
  forget: ReturnType<typeof setTimeout> | undefined
}

/** Views come and go together when a page does. */
const settleMs = 40
const forgetMs = 30_000
/** Nobody looks at a hidden tab for long, so nothing is asked for it. */
const restMs = 60_000
const retryMs = [500, 1_000, 2_000, 4_000, 8_000]

const entries = new Map<string, Entry>()
const connectionWatchers = new Set<() => void>()
let connection: Connection = { state: 'connecting' }
let source: EventSource | undefined
let opened = ''
let settling: ReturnType<typeof setTimeout> | undefined
let resting: ReturnType<typeof setTimeout> | undefined
let retrying: ReturnType<typeof setTimeout> | undefined
let failures = 0

/** Looks at a view for as long as the component is there. */
export function useView<Name extends ViewName>(name: Name, params: ParamsOf<Name>): Live<Says<Name>> {
  const key = keyOf(name, params as object)
  const [, changed] = useReducer((count: number) => count + 1, 0)
  useEffect(() => watch(key, () => changed(undefined)), [key])
  const entry = entries.get(key)
  return {
    key,
    data: entry?.data as Says<Name> | undefined,
    at: entry?.at,
    trouble: entry?.trouble,
    troubleAt: entry?.troubleAt,
    stale: entry?.trouble !== undefined || connection.state === 'lost',
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
      trouble: undefined,
      troubleAt: undefined,
      watchers: new Set(),
      forget: undefined,
    }
    entries.set(key, entry)
  }
  clearTimeout(entry.forget)
  entry.watchers.add(watcher)
  watcher()
  settle()
  return () => {
    entry.watchers.delete(watcher)
    if (entry.watchers.size > 0) return
    entry.forget = setTimeout(() => entries.delete(key), forgetMs)
    settle()
  }
}

function settle(): void {
  clearTimeout(settling)
  settling = setTimeout(open, settleMs)
}

function open(): void {
  const keys = [...entries].filter(([, { watchers }]) => watchers.size > 0).map(([key]) => key)
  const wanted = keys.sort().join('\n')
  if (source && source.readyState !== EventSource.CLOSED && wanted === opened) return
  clearTimeout(retrying)
  source?.close()
  source = undefined
  opened = wanted
  if (keys.length === 0) return
  if (connection.state === 'resting') tell({ state: 'connecting' })
  const query = new URLSearchParams(keys.map((key) => ['view', key]))
  const mine = new EventSource(`api/live?${query}`)
  source = mine
  mine.addEventListener('open', () => {
    failures = 0
    tell({ state: 'live' })
  })
  mine.addEventListener('view', ({ data }: MessageEvent<string>) => {
    const { view, at, data: picture } = JSON.parse(data) as Picture
    heard(at)
    tell({ state: 'live' })
    change(view, { data: picture, at, trouble: undefined, troubleAt: undefined })
  })
  mine.addEventListener('trouble', ({ data }: MessageEvent<string>) => {
    const { view, error } = JSON.parse(data) as TroubleSaid
    if (error.code === 'DATABASE_UNREACHABLE') tell({ state: 'blind' })
    change(view, { trouble: error, troubleAt: entries.get(view)?.troubleAt ?? new Date(now()).toISOString() })
  })
  mine.addEventListener('error', () => {
    if (source === mine) void lost()
  })
}

/** The browser does not say why a stream ended, so the server is asked, and then the stream is opened anew. */
async function lost(): Promise<void> {
  source?.close()
  source = undefined
  clearTimeout(retrying)
  const failure = await api.me().then(
    () => undefined,
    (error: unknown) => error as ApiError,
  )
  const since = connection.state === 'lost' ? connection.since : performance.now()
  if (failure instanceof ApiError) tell({ state: 'lost', since, failure })
  else if (failures > 0) {
    tell({
      state: 'lost',
      since,
      failure: { code: 'NO_STREAM', message: 'The stream of news ends again and again.', hint: null },
    })
  }
  // While the server was asked, another stream may have been opened.
  if (source) return
  const waitMs = retryMs[Math.min(failures, retryMs.length - 1)]!
  failures += 1
  clearTimeout(retrying)
  retrying = setTimeout(open, waitMs)
}

function change(key: string, changed: Partial<Entry>): void {
  const entry = entries.get(key)
  if (!entry) return
  Object.assign(entry, changed)
  for (const watcher of entry.watchers) watcher()
}

function tell(next: Connection): void {
  if (next.state === connection.state && next.state !== 'lost') return
  connection = next
  for (const watcher of connectionWatchers) watcher()
  for (const { watchers } of entries.values()) for (const watcher of watchers) watcher()
}

/** The server did not answer something else: then the stream may be dead, too, which nobody is told of a cable that was pulled. */
export function doubt(): void {
  if (connection.state === 'live' || connection.state === 'blind') void lost()
}

/** Tries at once instead of in a while. */
export function reconnect(): void {
  if (connection.state !== 'lost') return
  failures = 0
  open()
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(resting)
  if (document.hidden) {
    resting = setTimeout(() => {
      source?.close()
      source = undefined
      clearTimeout(retrying)
      tell({ state: 'resting' })
    }, restMs)
  } else if (!source) open()
})
