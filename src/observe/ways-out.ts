import type { ContendedName, Holding, Participant } from './contended.js'

/** What makes room for those who wait for a name. */
export type WayOut =
  /** Asks the holder of a lock, who decides itself when its work can stop. */
  | { readonly does: 'ask'; readonly key: string }
  /** Ends the sessions that hold a lock, and with them all that they hold. */
  | { readonly does: 'break'; readonly key: string }
  /** Takes a lease from its holder, or ends the hold of one that was given back. */
  | { readonly does: 'expire'; readonly key: string }
  /** Takes all permits of a limit. */
  | { readonly does: 'reset'; readonly namespace: string; readonly name: string }
  /** Stops a job that runs. */
  | { readonly does: 'cancel'; readonly job: number }
  /** Runs a job again that was buried or cancelled, and for whose retry others wait. */
  | { readonly does: 'retry'; readonly job: number }
  /** Nothing yet: why a job does not run is told of itself. */
  | { readonly does: 'look'; readonly job: number }

/** How a participant can be got out of the way of those who wait for a name, the mildest first; none where only time, or a worker, helps. */
export function waysOutOf(name: ContendedName, holding: Holding | undefined, participant: Participant): WayOut[] {
  const { kind, key, namespace, label } = name
  // A leader that leads is no trouble.
  if (kind === 'election') return []
  switch (holding?.how) {
    case 'lock':
      // What is no instance of ours cannot be asked.
      return [...(participant.kind === 'instance' ? [{ does: 'ask', key } as const] : []), { does: 'break', key }]
    case 'lease':
    case 'kept':
      return [{ does: 'expire', key }]
    case 'permit':
      return namespace === null || label === null ? [] : [{ does: 'reset', namespace, name: label }]
    case 'place':
    case 'job':
      return [{ does: wayOfJob(participant), job: holding.job! }]
    default:
      return []
  }
}

function wayOfJob({ job }: Participant): 'cancel' | 'retry' | 'look' {
  // Without one of its own, the job runs, and an instance takes part for it.
  if (job === null) return 'cancel'
  // A job that failed holds back those that wait for its retry. Any other job does not run yet, and itself says why.
  return job.state === 'buried' || job.state === 'cancelled' ? 'retry' : 'look'
}
