import { formatDuration } from '../base/index.js'

/** Formats a time as ISO 8601. On a terminal, appends the distance from `now`. */
export function formatTime(at: Date, now: Date): string {
  if (!process.stdout.isTTY) return at.toISOString()
  const ms = now.getTime() - at.getTime()
  return `${at.toISOString()} (${ms < 0 ? `in ${formatDuration(-ms)}` : `${formatDuration(ms)} ago`})`
}

/** Formats a time in UTC for a column. */
export function formatSeconds(at: Date): string {
  return at.toISOString().slice(0, 19).replace('T', ' ')
}
