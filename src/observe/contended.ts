/** An instance as a whole, a session of somebody else, a job that does not run; or nobody, where a name is kept by a hold or a rate. */
export interface Participant {
  /** The instance's id, `session 4711`, `job 17` or `nobody`. */
  readonly id: string
  readonly kind: 'instance' | 'session' | 'job' | 'nobody'
  readonly instance: string | null
  readonly host: string | null
  readonly osPid: number | null
  /** The server processes that it holds or waits with. */
  readonly pids: readonly number[]
  readonly application: string | null
  readonly user: string | null
  readonly job: WaitingJob | null
}

/** A job that takes part by itself: it waits, is ready, or has failed and others wait for its retry. */
export interface WaitingJob {
  readonly id: number
  readonly kind: string
  readonly queue: string | null
  readonly state: string
}

/** What somebody waits for, with who has it and who stands in its queue. */
export interface ContendedName {
  /** Of this graph alone: its kind and its key. */
  readonly id: string
  readonly kind: 'lock' | 'lease' | 'election' | 'limit' | 'lane' | 'job'
  /** In decimal; of a job, its id. */
  readonly key: string
  readonly namespace: string | null
  readonly label: string | null
  /** The queue of a lane or job. */
  readonly queue: string | null
  /** How many places it has: of a limit or a lane. */
  readonly max: number | null
  /** How much of them is in use. */
  readonly inUse: number | null
  readonly holders: readonly Holding[]
  /** In the order of the queue where there is one, else the longest first. */
  readonly waits: readonly Wait[]
  /** How many wait: more than are listed, where there are very many. Of parked jobs 10,000 at most are counted. */
  readonly waiting: number
}

/** That a participant has a name, or a place of it. */
export interface Holding {
  readonly participant: string
  /** `kept`: given back, and kept taken by its hold. `rate`: a lane has places, and its rate is not rested. */
  readonly how: 'lock' | 'lease' | 'kept' | 'permit' | 'place' | 'job' | 'rate'
  readonly mode: 'exclusive' | 'shared'
  /** The server process that holds a lock. */
  readonly pid: number | null
  /** The job that has the place, or is waited for. */
  readonly job: number | null
  /** How many places it takes. */
  readonly weight: number
  /** Null where nobody has written it down (yet). */
  readonly since: Date | null
  readonly forMs: number | null
  /** When it is free by itself, unless it is renewed. */
  readonly freeInMs: number | null
}

/** That a participant waits for a name. */
export interface Wait {
  readonly participant: string
  readonly mode: 'exclusive' | 'shared'
  /** The server process that waits in PostgreSQL's queue; null for one that asks from time to time. */
  readonly pid: number | null
  readonly weight: number
  readonly since: Date | null
  readonly forMs: number | null
  /** The calls inside the participant that wait together, as far as they were written down: what each is known to hold. */
  readonly calls: readonly Call[]
  /** How many calls wait together. */
  readonly requests: number
  /** Who stands before it in the queue and is in its way, where no holder is. */
  readonly behind: string | null
}

export interface Call {
  /** The names of this graph that the same flow of control holds: their ids. */
  readonly holds: readonly string[]
}

/** Who has a name. */
export function holdersOf({ holders }: Pick<ContendedName, 'holders'>): string[] {
  return [...new Set(holders.map(({ participant }) => participant))]
}

/** Who is in the way of those who wait: the holders, or else who stands first in the queue. */
export function blockersOf({ holders, waits }: Pick<ContendedName, 'holders' | 'waits'>): string[] {
  if (holders.length > 0) return holdersOf({ holders })
  return waits.length > 1 ? [waits[0]!.participant] : []
}
