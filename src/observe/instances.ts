// Instances, as their rows and PostgreSQL's lock table tell of them.
export interface ObservedInstance {
  readonly id: string
  readonly namespace: string
  readonly host: string
  readonly osPid: number
  readonly version: string
  /** The version of Node.js that it runs on. */
  readonly node: string | null
  /** How far it has come with draining: `open` takes part, `asked` has not heard of it yet, `drained` only lives. */
  readonly state: 'open' | 'asked' | 'draining' | 'drained'
  /** The server process of its anchor; null without one. */
  readonly pid: number | null
  /** Whether PostgreSQL vouches for it, or its row has not expired. False also between two lives, while it reconnects. */
  readonly alive: boolean
  /** How many names it holds as locks. */
  readonly held: number
  /** How many it has by lease. */
  readonly leased: number
  readonly waiting: number
  /** 1 plus its reconnections. */
  readonly lives: number
  readonly expiryMs: number
  readonly pooler: string
  readonly refusedSettings: Record<string, { wanted: string; got: string | null }>
  readonly openedAt: Date
  readonly forMs: number
}

export interface InstanceRow {
  id: string
  namespace: string
  host: string
  os_pid: number
  version: string
  node: string | null
  state: ObservedInstance['state']
  backend_pid: number | null
  alive: boolean
  held: number
  leased: number
  waiting: number
  lives: number
  expiry_ms: number
  pooler: string
  refused_settings: ObservedInstance['refusedSettings']
  opened_ms: number
  for_ms: number
}

export function readInstance(row: InstanceRow): ObservedInstance {
  const { os_pid, backend_pid, expiry_ms, refused_settings, opened_ms, for_ms, ...same } = row
  return {
    ...same,
    osPid: os_pid,
    pid: backend_pid,
    expiryMs: expiry_ms,
    refusedSettings: refused_settings,
    openedAt: new Date(opened_ms),
    forMs: Math.round(for_ms),
  }
}
