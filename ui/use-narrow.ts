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
