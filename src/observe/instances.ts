// Instances, as their rows and PostgreSQL's lock table tell of them.
/** A process that opened Holdfast. */
export interface ObservedInstance {
  /** ID of the instance. */
  readonly id: string
  /** Namespace of the instance. */
  readonly namespace: string
  /** Host of the instance. */
  readonly host: string
  /** Operating system process of the instance. */
  readonly osPid: number
  /** Version of Holdfast. */
  readonly version: string
  /** Version of Node.js. */
  readonly node: string | null
  /**
   * Progress of a drain. `open`: no drain was requested. `asked`: the instance has not received the request yet. `draining`: it
   * takes no new work. `drained`: none of its work is left.
   */
  readonly state: 'open' | 'asked' | 'draining' | 'drained'
  /** Server process of its anchor. Null without an anchor. */
  readonly pid: number | null
  /** Whether PostgreSQL has a session of the instance, or its row has not expired. Also false while the instance reconnects. */
  readonly alive: boolean
  /** Number of names that the instance holds as locks. */
  readonly held: number
  /** Number of names that the instance holds by lease. */
  readonly leased: number
  /** Number of names that the instance waits for as locks. */
  readonly waiting: number
  /** 1 plus the number of reconnections. */
  readonly lives: number
  /** Milliseconds of silence after which the server gives the instance up. */
  readonly expiryMs: number
  /** Connection pooler between the instance and the server. */
  readonly pooler: string
  /** Settings of its session that the server or a pooler refused. */
  readonly refusedSettings: Record<
    string,
    {
      /** Value that Holdfast wanted. */
      wanted: string
      /** Value that is in force. */
      got: string | null
    }
  >
  /** Time at which the instance opened. */
  readonly openedAt: Date
  /** Milliseconds since then, by the database clock. */
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
