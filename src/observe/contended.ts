/**
 * A participant of the wait graph: an instance as a whole, a session that does not belong to Holdfast, or a job that is
 * not running. `nobody` if a minimum hold or a rate blocks the name. In that case only waiting helps.
 */
export interface Participant {
  /** ID of the instance, or `session 4711`, `job 17` or `nobody`. */
  readonly id: string
  /** Kind of participant. */
  readonly kind: 'instance' | 'session' | 'job' | 'nobody'
  /** The instance. Null for other kinds of participants. */
  readonly instance: string | null
  /** Host of the instance, if it is known. */
  readonly host: string | null
  /** Operating system process ID of the instance. */
  readonly osPid: number | null
  /** Server processes that hold or wait for names on behalf of the participant. */
  readonly pids: readonly number[]
  /** Application name of the session. */
  readonly application: string | null
  /** Role of the session. */
  readonly user: string | null
  /** The job. Null for other kinds of participants. */
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
  /** ID of the name in this graph. Consists of the kind and the key. */
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
  /** Queue of a lane or a job. Null for other kinds of names. */
  readonly queue: string | null
  /** Number of slots of a limit or a lane. Null for other kinds of names. */
  readonly max: number | null
  /** Number of slots that are in use. Null for other kinds of names. */
  readonly inUse: number | null
  /** Holders of the name. */
  readonly holders: readonly Holding[]
  /** Waits for the name, in queue order. Without a queue, the longest wait comes first. */
  readonly waits: readonly Wait[]
  /** Total number of waits, which may be larger than the list. Waiting jobs are counted up to 10,000. */
  readonly waiting: number
}

/** A name, or a slot of a name, that a participant holds. */
export interface Holding {
  /** ID of the participant. */
  readonly participant: string
  /**
   * How the participant holds the name. `min-hold`: the lease was released, but its minimum hold still blocks the name.
   * `place`: a job occupies a slot of the lane. `job`: other jobs wait for the job itself. `rate`: the lane has free
   * slots, but its rate is spent.
   */
  readonly how: 'lock' | 'lease' | 'min-hold' | 'permit' | 'place' | 'job' | 'rate'
  /** Mode in which a lock is held. */
  readonly mode: 'exclusive' | 'shared'
  /** Server process that holds a lock. */
  readonly pid: number | null
  /** ID of the job that occupies the slot, or that other jobs wait for. */
  readonly job: number | null
  /** Number of slots that the participant uses. */
  readonly weight: number
  /** Start of the hold. Null if it is not recorded, or not yet. */
  readonly since: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number | null
  /**
   * Milliseconds until the name is free, unless the hold is renewed. Null if the name does not become free on its own.
   */
  readonly freeInMs: number | null
}

/** A wait of a participant for a name. */
export interface Wait {
  /** ID of the participant. */
  readonly participant: string
  /** Mode in which the participant wants the name. */
  readonly mode: 'exclusive' | 'shared'
  /** Server process that waits in PostgreSQL's lock queue. Null for a participant that polls. */
  readonly pid: number | null
  /** Number of slots that the participant wants. */
  readonly weight: number
  /** Start of the wait. */
  readonly since: Date | null
  /** Milliseconds since then, by the database clock. */
  readonly forMs: number | null
  /** The participant's recorded calls that wait for this name. Recent calls are not recorded yet. */
  readonly calls: readonly Call[]
  /** Number of calls that wait for this name. */
  readonly requests: number
  /** ID of the participant that is ahead in the queue and blocks this wait. Null if a holder blocks this wait. */
  readonly behind: string | null
}

/** A waiting call. */
export interface Call {
  /** IDs of the names in this graph that the same flow of control holds. */
  readonly holds: readonly string[]
}

/** Returns the IDs of the holders. */
export function holderIds({ holders }: Pick<ContendedName, 'holders'>): string[] {
  return [...new Set(holders.map(({ participant }) => participant))]
}

/**
 * Returns the IDs of the participants that block the waiters: the holders, or, without holders, the first participant
 * in the queue.
 */
export function blockerIds({ holders, waits }: Pick<ContendedName, 'holders' | 'waits'>): string[] {
  if (holders.length > 0) return holderIds({ holders })
  return waits.length > 1 ? [waits[0]!.participant] : []
}
