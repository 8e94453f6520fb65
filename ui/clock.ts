// The time of the database, as far as this page knows it. The clock of the browser may be wrong by hours, and only its pace is used.
import { useEffect, useState } from 'preact/hooks'

/** The database's clock minus `performance.now()`. */
let offset: number | undefined

/**
 * Takes in a moment that was, by the database's clock: it is later now. It may be told long after it was, as with a picture
 * that has not changed since. The youngest answer is the one that travelled least.
 */
export function syncClock(at: string): void {
  const measured = Date.parse(at) - performance.now()
  if (offset === undefined || measured > offset) offset = measured
}

/** Takes in what the time is, as the database has just told it: its clock may have been set back, too. */
export function resetClock(time: string): void {
  if (offset !== undefined && Date.parse(time) - performance.now() < offset - 5_000) offset = undefined
  syncClock(time)
}

/** Now, by the clock of the database. */
export function now(): number {
  return offset === undefined ? Date.now() : performance.now() + offset
}

const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

/** Now, told anew every second while the page is seen: one timer for all. */
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
