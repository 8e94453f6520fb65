import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'

const narrow = matchMedia('(max-width: 699px)')

/** Returns whether the window is too narrow for tables. */
export function useNarrow(): boolean {
  const [matches, setMatches] = useState(narrow.matches)
  useEffect(() => {
    const changed = () => setMatches(narrow.matches)
    narrow.addEventListener('change', changed)
    return () => narrow.removeEventListener('change', changed)
  }, [])
  return matches
}

/** Returns an element's width in whole pixels, or 0 before the first layout. */
export function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const element = ref.current
    if (!element) return
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)))
    observer.observe(element)
    return () => observer.disconnect()
  }, [ref])
  return width
}
