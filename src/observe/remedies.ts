import type { ContendedName, Holding, Participant } from './contended.js'

/** Operator action that unblocks a participant. */
export type Remedy =
  /** Requests a lock's release. The holder decides when its work can stop. */
  | { readonly action: 'release'; readonly key: string }
  /** Ends the sessions that hold a lock. As a result, everything that the sessions hold is released. */
  | { readonly action: 'break'; readonly key: string }
  /** Ends a lease, or a released lease's minimum hold. */
  | { readonly action: 'expire'; readonly key: string }
  /** Revokes all of a limit's permits. */
  | { readonly action: 'reset'; readonly namespace: string; readonly name: string }
  /** Stops a running job. */
  | { readonly action: 'cancel'; readonly job: number }
  /** Retries a buried or cancelled job that other jobs wait for. */
  | { readonly action: 'retry'; readonly job: number }
  /** No action. The job's details explain why the job is not running. */
  | { readonly action: 'inspect'; readonly job: number }

/**
 * Returns the actions that unblock a name's waiters, starting with the least disruptive action. Returns an empty list
 * if the only remedy is to wait or to start a worker.
 */
export function remediesFor(name: ContendedName, holding: Holding | undefined, participant: Participant): Remedy[] {
  const { kind, key, namespace, label } = name
  // An election always has waiting candidates, so its leader needs no remedy.
  if (kind === 'election') return []
  switch (holding?.how) {
    case 'lock':
      // Only instances can receive a release request.
      return [
        ...(participant.kind === 'instance' ? [{ action: 'release', key } as const] : []),
        { action: 'break', key },
      ]
    case 'lease':
    case 'min-hold':
      return [{ action: 'expire', key }]
    case 'permit':
      return namespace === null || label === null ? [] : [{ action: 'reset', namespace, name: label }]
    case 'place':
    case 'job':
      return [{ action: remedyForJob(participant), job: holding.job! }]
    default:
      return []
  }
}

function remedyForJob({ job }: Participant): 'cancel' | 'retry' | 'inspect' {
  // A running job is not a participant. Its instance is the participant.
  if (job === null) return 'cancel'
  return job.state === 'buried' || job.state === 'cancelled' ? 'retry' : 'inspect'
}
