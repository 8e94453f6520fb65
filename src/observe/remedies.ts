import type { ContendedName, Holding, Participant } from './contended.js'

/** Operator action that unblocks a participant. */
export type Remedy =
  /** Requests the release of a lock. The holder decides when its work can stop. */
  | { readonly action: 'release'; readonly key: string }
  /** Ends the sessions that hold a lock, which releases everything that they hold. */
  | { readonly action: 'break'; readonly key: string }
  /** Ends a lease, or the minimum hold of a released lease. */
  | { readonly action: 'expire'; readonly key: string }
  /** Revokes all permits of a limit. */
  | { readonly action: 'reset'; readonly namespace: string; readonly name: string }
  /** Stops a running job. */
  | { readonly action: 'cancel'; readonly job: number }
  /** Retries a buried or cancelled job that other jobs wait for. */
  | { readonly action: 'retry'; readonly job: number }
  /** No action. The job's details explain why the job is not running. */
  | { readonly action: 'inspect'; readonly job: number }

/**
 * Returns actions that unblock the waiters of a name, the least disruptive first. Empty if only waiting or starting a
 * worker helps.
 */
export function remediesFor(name: ContendedName, holding: Holding | undefined, participant: Participant): Remedy[] {
  const { kind, key, namespace, label } = name
  // A leader is not a problem.
  if (kind === 'election') return []
  switch (holding?.how) {
    case 'lock':
      // Only instances can receive a request.
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
  // A running job has no participant of its own. Its instance is the participant.
  if (job === null) return 'cancel'
  return job.state === 'buried' || job.state === 'cancelled' ? 'retry' : 'inspect'
}
