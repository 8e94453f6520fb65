/**
 * A participant in the wait graph: a whole instance, a session that does not belong to Holdfast, or a job that is not
 * running. The participant `no-holder` represents a minimum hold or a rate limit that blocks a name. Such a name becomes
 * free only after some time.
 */
export interface Participant {
  /** ID of the participant: the instance ID, or a text such as `session 4711`, `job 17` or `no-holder`. */
  readonly id: string
  /** Kind of participant. */
  readonly kind: 'instance' | 'session' | 'job' | 'no-holder'
  /** Instance ID. Null for other kinds of participants. */
  readonly instance: string | null
  /** Name of the instance. */
  readonly instanceName: string | null
  /** Host of the instance, if it is known. */
  readonly host: string | null
  /** Operating system process ID of the instance. */
  readonly osPid: number | null
  /** Server processes that hold or wait for names on the participant's behalf. */
  readonly pids: readonly number[]
  /** Application name of the session. */
  readonly application: string | null
  /** Database role of the session. */
  readonly user: string | null
  /** The waiting job. Null for other kinds of participants. */
  readonly job: WaitingJob | null
}

/** A job that is waiting, is ready, or has failed while other jobs are waiting for it to be retried. */
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

/** A name that participants are waiting for, with its holders and its queue. */
export interface ContendedName {
  /** ID of the name in this graph, built from the name's kind and key. */
  readonly id: string
  /** Kind of name. */
  readonly kind: 'lock' | 'lease' | 'election' | 'limit' | 'lane' | 'budget' | 'job'
  /**
   * 64-bit key of the name, in decimal. For a job, the job ID.
   *
   * @pattern ^-?[0-9]+$
   */
  readonly key: string
  /** Namespace of the name. Null if the key is not registered. */
  readonly namespace: string | null
  /** The name. For a job, the job's kind. Null if the key is not registered. */
  readonly label: string | null
  /** Queue of a lane or a job. Null for other kinds of names. */
  readonly queue: string | null
  /** A limit's, a lane's or a budget's number of slots. Null for other kinds of names. */
  readonly max: number | null
  /** Number of a limit's, a lane's or a budget's slots that are in use. Null for other kinds of names. */
  readonly inUse: number | null
  /** Holders of the name. */
  readonly holders: readonly Holding[]
  /** Waits for the name, in queue order. If the name has no queue, the longest wait comes first. */
  readonly waits: readonly Wait[]
  /** Total number of waits, including waits that are not listed. Waiting jobs are counted only up to 10,000. */
  readonly waiting: number
}

/** A participant's hold on a name or on one of its slots. */
export interface Holding {
  /** ID of the participant. */
  readonly participant: string
  /**
   * Kind of hold. `min-hold`: the lease was released, but its minimum hold still blocks the name. `place`: a job
   * occupies a slot in the lane, or uses part of the budget. `job`: other jobs wait for the job itself. `rate`: the
   * lane or budget has free slots, but has used up its rate.
   */
  readonly how: 'lock' | 'lease' | 'min-hold' | 'permit' | 'place' | 'job' | 'rate'
  /** Lock mode in which the name is held. */
  readonly mode: 'exclusive' | 'shared'
  /** Server process that holds the lock. Null for other kinds of holds. */
  readonly pid: number | null
  /** ID of the job that occupies the slot, or that other jobs wait for. */
  readonly job: number | null
  /** Number of slots that the participant uses. */
  readonly weight: number
  /** Start of the hold. Null until a start is recorded. */
  readonly since: Date | null
  /** Duration of the hold so far, in milliseconds according to the database clock. */
  readonly forMs: number | null
  /**
   * Milliseconds until the name becomes free if the hold is not renewed. Null if the name becomes free only when the
   * holder releases it.
   */
  readonly freeInMs: number | null
}

/** A participant's wait for a name. */
export interface Wait {
  /** ID of the participant. */
  readonly participant: string
  /** Lock mode that the participant requests. */
  readonly mode: 'exclusive' | 'shared'
  /** Server process that is waiting in PostgreSQL's lock queue. Null for a participant that polls. */
  readonly pid: number | null
  /** Number of slots that the participant requests. */
  readonly weight: number
  /** Start of the wait. */
  readonly since: Date | null
  /** Duration of the wait so far, in milliseconds according to the database clock. */
  readonly forMs: number | null
  /**
   * The participant's recorded calls that are waiting for this name. A call is recorded only after it has waited for 1
   * s.
   */
  readonly calls: readonly Call[]
  /** Number of the participant's calls that are waiting for this name. */
  readonly requests: number
  /** ID of the participant that is ahead in the queue and blocks this wait. Null if a holder blocks the wait. */
  readonly behind: string | null
}

/** A waiting call. */
export interface Call {
  /** IDs of the names in this graph that the same flow of control holds. */
  readonly holds: readonly string[]
}

/** Returns the holders' IDs. */
export function holderIds({ holders }: Pick<ContendedName, 'holders'>): string[] {
  return [...new Set(holders.map(({ participant }) => participant))]
}

/**
 * Returns the IDs of the participants that block the waiters. These are the holders or, if there are no holders, the
 * first participant in the queue.
 */
export function blockerIds({ holders, waits }: Pick<ContendedName, 'holders' | 'waits'>): string[] {
  if (holders.length > 0) return holderIds({ holders })
  return waits.length > 1 ? [waits[0]!.participant] : []
}
