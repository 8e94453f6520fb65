import type { Call, ContendedName, Holding, Participant, Wait } from './contended.js'
import { callOf, groupBy, instanceOf, noHolder, type RecordedWaitRow } from './graph-locks.js'

/** A holder of or waiter for a limit, a lane or a budget, or a job that blocks another job or is waiting for another job. */
export interface PlaceRow {
  kind: 'limit' | 'lane' | 'budget' | 'job'
  key: string
  namespace: string | null
  label: string | null
  queue: string | null
  max: number
  holds: boolean
  /** Total number of the name's holders if this row is a holder, or of its waiters if this row is a waiter. */
  count: number
  in_use: number
  instance: string | null
  instance_name: string | null
  host: string | null
  os_pid: number | null
  weight: number
  job: string | null
  job_kind: string | null
  job_state: string | null
  /** Milliseconds until the rate of the lane or budget allows the next job. Null if it is full or has no rate. */
  free_in_ms: number | null
  since_ms: number
  for_ms: number
}

/** Names of limits, lanes, budgets and jobs. Their holders and queues are rows in tables. */
export class Places {
  readonly #rows: readonly PlaceRow[]
  readonly #recorded: readonly RecordedWaitRow[]

  constructor(rows: readonly PlaceRow[], recorded: readonly RecordedWaitRow[]) {
    this.#rows = rows
    this.#recorded = recorded.filter(({ kind }) => kind === 'permit')
  }

  names(): ContendedName[] {
    return [...groupBy(this.#rows, nameOf)].map(([id, rows]) => {
      const { kind, key, namespace, label, queue } = rows[0]!
      const [held, waiting] = [rows.filter(({ holds }) => holds), rows.filter(({ holds }) => !holds)]
      const places = { max: rows[0]!.max, inUse: held[0]?.in_use ?? 0 }
      return {
        ...{ id, kind, key, namespace, label: kind === 'job' ? rows[0]!.job_kind : label, queue },
        ...(kind === 'job' ? { max: null, inUse: null } : places),
        holders: [...held.map(holdingOf), ...rateOf(rows[0]!)],
        waits: waiting.map((row) => waitOf(row, this.#callsOf(row))),
        waiting: waiting[0]?.count ?? 0,
      }
    })
  }

  *participants(): Iterable<Participant> {
    yield noHolder
    for (const row of this.#rows) {
      const { instance, job, job_kind, job_state, queue } = row
      if (instance !== null) yield instanceOf(instance, row)
      else if (job !== null) {
        const facts = { id: Number(job), kind: job_kind!, queue, state: job_state! }
        yield { ...noHolder, id: participantOf(row), kind: 'job', job: facts }
      }
    }
  }

  /** Returns the instance's recorded calls that are waiting for the same limit. */
  #callsOf(row: PlaceRow): Call[] {
    if (row.kind !== 'limit') return []
    return this.#recorded.filter(({ key, instance }) => key === row.key && instance === row.instance).map(callOf)
  }
}

function nameOf({ kind, key }: PlaceRow): string {
  return `${kind} ${key}`
}

function participantOf({ instance, job }: PlaceRow): string {
  return instance ?? (job === null ? noHolder.id : `job ${job}`)
}

function holdingOf(row: PlaceRow): Holding {
  const { kind, job, weight, since_ms, for_ms } = row
  const how = ({ limit: 'permit', lane: 'place', budget: 'place', job: 'job' } as const)[kind]
  return {
    ...{ participant: participantOf(row), how, mode: 'exclusive', pid: null, job: job === null ? null : Number(job) },
    ...{ weight, since: new Date(since_ms), forMs: Math.round(for_ms), freeInMs: null },
  }
}

function rateOf({ free_in_ms }: PlaceRow): Holding[] {
  if (free_in_ms === null) return []
  return [
    {
      ...{ participant: noHolder.id, how: 'rate', mode: 'exclusive', pid: null, job: null, weight: 0 },
      ...{ since: null, forMs: null, freeInMs: Math.round(free_in_ms) },
    },
  ]
}

function waitOf(row: PlaceRow, calls: readonly Call[]): Wait {
  return {
    ...{ participant: participantOf(row), mode: 'exclusive', pid: null, weight: row.weight },
    ...{ since: new Date(row.since_ms), forMs: Math.round(row.for_ms), calls, requests: 1, behind: null },
  }
}
