/** A time as SQL returns it, in ms since 1970. */
export function dateOf(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms)
}

/** An age or a time left, which two clocks may have read: never less than nothing. */
export function msOf(ms: number | null): number | null {
  return ms === null ? null : Math.max(0, Math.round(ms))
}
