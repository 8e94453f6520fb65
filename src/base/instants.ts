import { isInstance, memberOf } from './user-values.js'

/** A point in time: a `Date`, a `Temporal.Instant` or a `Temporal.ZonedDateTime`. */
export type Instant = Date | TemporalInstant

/**
 * The property of `Temporal.Instant` and `Temporal.ZonedDateTime` that Holdfast reads. Declared here, because not every
 * program has types for Temporal.
 */
export interface TemporalInstant {
  readonly epochMilliseconds: number
}

/** Returns the point in time as a `Date`, or undefined if the value is not a point in time. */
export function parseInstant(given: unknown): Date | undefined {
  const ms = isInstance(given, Date) ? given.getTime() : memberOf(given, 'epochMilliseconds')
  if (typeof ms !== 'number') return undefined
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date
}
