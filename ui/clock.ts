// Estimate of the time of the database. The clock of the browser may be wrong by hours, so only its speed is used.
import { useEffect, useState } from 'preact/hooks'

/** Time of the database minus `performance.now()`. */
let offset: number | undefined

/**
 * Moves the estimate forward to a past time of the database. The time may be old, for example in a snapshot that has not
 * changed since. The largest offset belongs to the fastest message, so smaller offsets are ignored.
 */
export function syncClock(at: string): void {
  const measured = Date.parse(at) - performance.now()
  if (offset === undefined || measured > offset) offset = measured
}

/** Sets the estimate from a current time of the database, also when the database clock was set back. */
export function resetClock(time: string): void {
  if (offset !== undefined && Date.parse(time) - performance.now() < offset - 5_000) offset = undefined
  syncClock(time)
}

/** Current time of the database. */
export function now(): number {
  return offset === undefined ? Date.now() : performance.now() + offset
}

const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/** Current time of the database, updated every second while the page is visible. All components share one timer. */
export function useNow(): number {
  const [time, setTime] = useState(now)
  useEffect(() => {
    const tick = () => setTime(now())
    watchers.add(tick)
    timer ??= setInterval(() => {
      if (!document.hidden) for (const watcher of watchers) watcher()
    }, 1_000)
    return () => {
      watchers.delete(tick)
      if (watchers.size > 0) return
      clearInterval(timer)
      timer = undefined
    }
  }, [])
  return time
}
