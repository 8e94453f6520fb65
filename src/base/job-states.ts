/** The states of a job, in the order of its life. */
export const jobStates = ['ready', 'running', 'waiting', 'done', 'cancelled', 'discarded', 'buried'] as const
export type JobState = (typeof jobStates)[number]

/** The states of a job that has not come to its end. */
export const unendedStates: readonly JobState[] = ['ready', 'running', 'waiting']

/** Whether a job in this state has come to its end. */
export function hasEnded(state: JobState): boolean {
  return !unendedStates.includes(state)
}
