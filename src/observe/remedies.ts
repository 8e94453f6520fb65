import type { ContendedName, Holding, Participant } from './contended.js'

/** What makes room for those who wait for a name. */
export type Remedy =
  /** Asks the holder of a lock, who decides itself when its work can stop. */
  | { readonly action: 'release'; readonly key: string }
  /** Ends the sessions that hold a lock, and with them all that they hold. */
  | { readonly action: 'break'; readonly key: string }
  /** Takes a lease from its holder, or ends the hold of one that was given back. */
  | { readonly action: 'expire'; readonly key: string }
  /** Takes all permits of a limit. */
  | { readonly action: 'reset'; readonly namespace: string; readonly name: string }
  /** Stops a job that runs. */
  | { readonly action: 'cancel'; readonly job: number }
  /** Runs a job again that was buried or cancelled, and for whose retry others wait. */
  | { readonly action: 'retry'; readonly job: number }
  /** Nothing yet: why a job does not run is told of itself. */
  | { readonly action: 'inspect'; readonly job: number }

/** How a participant can be got out of the way of those who wait for a name, the mildest first; none where only time, or a worker, helps. */
export function remediesFor(name: ContendedName, holding: Holding | undefined, participant: Participant): Remedy[] {
  const { kind, key, namespace, label } = name
  // A leader that leads is no trouble.
  if (kind === 'election') return []
  switch (holding?.how) {
    case 'lock':
      // What is no instance of ours cannot be asked.
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
  // Without one of its own, the job runs, and an instance takes part for it.
  if (job === null) return 'cancel'
  // A job that failed holds back those that wait for its retry. Any other job does not run yet, and itself says why.
  return job.state === 'buried' || job.state === 'cancelled' ? 'retry' : 'inspect'
}
