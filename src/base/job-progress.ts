/**
 * Progress of a job: a number or a small JSON object. The dashboard shows a number from 0 to 1, and an object with the
 * numbers `done` and `total`, as a bar.
 *
 * @fraction
 */
export type JobProgress = number | Readonly<Record<string, unknown>>

/** Returns the completed fraction, from 0 to 1, or undefined if the progress does not contain it. */
export function shareOf(progress: JobProgress): number | undefined {
  if (typeof progress === 'number') return progress >= 0 && progress <= 1 ? progress : undefined
  const { done, total } = progress
  const isShare = typeof done === 'number' && typeof total === 'number' && total > 0 && done >= 0 && done <= total
  return isShare ? done / total : undefined
}
