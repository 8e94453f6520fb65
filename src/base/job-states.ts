/** A job's states. */
export const jobStates = ['ready', 'running', 'waiting', 'done', 'cancelled', 'expired', 'discarded', 'buried'] as const
export type JobState = (typeof jobStates)[number]

/** The states of jobs that have not ended yet. */
export const unendedStates: readonly JobState[] = ['ready', 'running', 'waiting']

export function hasEnded(state: JobState): boolean {
  return !unendedStates.includes(state)
}
