/**
 * An instance as a whole, a session that does not belong to Holdfast, or a job that does not run. `nobody` if a hold or a rate
 * keeps the name: then only time helps.
 */
export interface Participant {
  /** ID of the instance, or `session 4711`, `job 17` or `nobody`. */
  readonly id: string
  /** Kind of participant. */
  readonly kind: 'instance' | 'session' | 'job' | 'nobody'
  /** The instance. Null for all others. */
  readonly instance: string | null
  /** Host of the instance, if it is known. */
  readonly host: string | null
  /** Operating system process of the instance. */
  readonly osPid: number | null
  /** Server processes with which the participant holds or waits. */
  readonly pids: readonly number[]
  /** Application name of the session. */
  readonly application: string | null
  /** Role of the session. */
  readonly user: string | null
  /** The job. Null for all others. */
  readonly job: WaitingJob | null
}

/** A job that waits, is ready, or has failed while other jobs wait for its retry. */
export interface WaitingJob {
  /** ID of the job. */
  readonly id: number
  /** Name of the job definition. */
  readonly kind: string
  /** Name of the queue. Null if the name is not registered. */
  readonly queue: string | null
  /** State of the job. */
  readonly state: string
}

/** A name that participants wait for, with its holders and its queue. */
export interface ContendedName {
  /** ID of the name in this graph: its kind and its key. */
  readonly id: string
  /** Kind of name. */
  readonly kind: 'lock' | 'lease' | 'election' | 'limit' | 'lane' | 'job'
  /**
   * 64-bit key, in decimal. For a job, its ID.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the name. Null for a key that is not registered. */
  readonly namespace: string | null
  /** The name, or the kind of a job. Null for a key that is not registered. */
  readonly label: string | null
  /** Queue of a lane or a job. Null for others. */
  readonly queue: string | null
  /** Number of places of a limit or a lane. Null for others. */
  readonly max: number | null
  /** Number of these places that are in use. Null for others. */
  readonly inUse: number | null
  /** Holders of the name. */
  readonly holders: readonly Holding[]
  /** Waits for the name, in the order of the queue if there is one, else the longest first. */
  readonly waits: readonly Wait[]
  /** Number of waits. Larger than the list if there are very many. Waiting jobs are counted up to 10,000. */
  readonly waiting: number
}

/** A name, or a place of a name, that a participant has. */
export interface Holding {
  /** ID of the participant. */
  readonly participant: string
  /**
   * How the participant has it. `min-hold`: the lease was released, and its hold keeps the name taken. `place`: a job has a place
   * of the lane. `job`: the job itself is waited for. `rate`: the lane has free places, but its rate is spent.
   */
  readonly how: 'lock' | 'lease' | 'min-hold' | 'permit' | 'place' | 'job' | 'rate'
  /** How a lock is held. */
  readonly mode: 'exclusive' | 'shared'
  /** Server process that holds a lock. */
  readonly pid: number | null
  /** ID of the job that has the place, or is waited for. */
  readonly job: number | null
  /** Number of places that it uses. */
  readonly weight: number
  /** Start of the hold. Null if it is not recorded, or not yet. */
  readonly since: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number | null
  /** Milliseconds until the name is free, unless the hold is renewed. Null if it does not become free by itself. */
  readonly freeInMs: number | null
}

/** A wait of a participant for a name. */
export interface Wait {
  /** ID of the participant. */
  readonly participant: string
  /** How the participant wants the name. */
  readonly mode: 'exclusive' | 'shared'
  /** Server process that waits in the lock queue of PostgreSQL. Null for a participant that polls. */
  readonly pid: number | null
  /** Number of places that it wants. */
  readonly weight: number
  /** Start of the wait. */
  readonly since: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number | null
  /** Recorded calls of the participant that wait together. Young calls are not recorded yet. */
  readonly calls: readonly Call[]
  /** Number of calls that wait together. */
  readonly requests: number
  /** ID of the participant that is before this one in the queue and blocks it. Null if a holder blocks it. */
  readonly behind: string | null
}

/** A call that waits. */
export interface Call {
  /** IDs of the names in this graph that the same flow of control holds. */
  readonly holds: readonly string[]
}

/** Returns the IDs of the holders. */
export function holderIds({ holders }: Pick<ContendedName, 'holders'>): string[] {
  return [...new Set(holders.map(({ participant }) => participant))]
}

/** Returns the IDs of the participants that block the waiters: the holders, or else the first one in the queue. */
export function blockerIds({ holders, waits }: Pick<ContendedName, 'holders' | 'waits'>): string[] {
  if (holders.length > 0) return holderIds({ holders })
  return waits.length > 1 ? [waits[0]!.participant] : []
}
