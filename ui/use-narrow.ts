import { useEffect, useState } from 'preact/hooks'

const narrow = matchMedia('(max-width: 699px)')

/** Whether there is too little width for a table. */
export function useNarrow(): boolean {
  const [matches, setMatches] = useState(narrow.matches)
  useEffect(() => {
    const changed = () => setMatches(narrow.matches)
    narrow.addEventListener('change', changed)
    return () => narrow.removeEventListener('change', changed)
  }, [])
  return matches
}
