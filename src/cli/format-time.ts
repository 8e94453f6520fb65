import { formatDuration } from '../base/index.js'

/** A moment; for people with how long ago that was, or when it will be. */
export function formatTime(at: Date, now: Date): string {
  if (!process.stdout.isTTY) return at.toISOString()
  const ms = now.getTime() - at.getTime()
  return `${at.toISOString()} (${ms < 0 ? `in ${formatDuration(-ms)}` : `${formatDuration(ms)} ago`})`
}

/** A moment in UTC, for a column. */
export function formatSeconds(at: Date): string {
  return at.toISOString().slice(0, 19).replace('T', ' ')
}
