/** State of a job. */
export type JobState = 'ready' | 'running' | 'waiting' | 'done' | 'cancelled' | 'expired' | 'discarded' | 'buried'

export const jobStates: readonly JobState[] = [
  'ready',
  'running',
  'waiting',
  'done',
  'cancelled',
  'expired',
  'discarded',
  'buried',
]

/** The states of jobs that have not ended yet. */
export const unendedStates: readonly JobState[] = ['ready', 'running', 'waiting']

export function hasEnded(state: JobState): boolean {
  return !unendedStates.includes(state)
}
