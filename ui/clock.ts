// Estimates the database's time. The browser's clock may be wrong by hours, so it is only used to measure durations.
import { useEffect, useState } from 'preact/hooks'

/** Database time minus `performance.now()`. */
let offset: number | undefined

/**
 * Updates the estimate from a database time that has passed. The time may be old, because a snapshot carries the time
 * of its last change. The fastest message has the largest offset, so smaller offsets are ignored.
 */
export function syncClock(at: string): void {
  const measured = Date.parse(at) - performance.now()
  if (offset === undefined || measured > offset) offset = measured
}

/** Updates the estimate from a current database time. Also works after the database's clock has been set back. */
export function resetClock(time: string): void {
  if (offset !== undefined && Date.parse(time) - performance.now() < offset - 5_000) offset = undefined
  syncClock(time)
}

/** Discards the estimate, because another database has its own clock. */
export function forgetClock(): void {
  offset = undefined
}

/** Current database time. */
export function now(): number {
  return offset === undefined ? Date.now() : performance.now() + offset
}

const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/**
 * Returns the database time and updates the component every second while the page is visible. All components share one
 * timer.
 */
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
