// Estimate of the database time. The browser's clock may be wrong by hours, so only its speed is used.
import { useEffect, useState } from 'preact/hooks'

/** Database time minus `performance.now()`. */
let offset: number | undefined

/**
 * Updates the estimate from a past database time. This time may be old, for example if it belongs to a snapshot that
 * has not changed since. The largest offset belongs to the fastest message, so smaller offsets are ignored.
 */
export function syncClock(at: string): void {
  const measured = Date.parse(at) - performance.now()
  if (offset === undefined || measured > offset) offset = measured
}

/** Sets the estimate from a current database time, even if the database clock was set back. */
export function resetClock(time: string): void {
  if (offset !== undefined && Date.parse(time) - performance.now() < offset - 5_000) offset = undefined
  syncClock(time)
}

/** Current database time. */
export function now(): number {
  return offset === undefined ? Date.now() : performance.now() + offset
}

const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/** Current database time, updated every second while the page is visible. All components share one timer. */
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
