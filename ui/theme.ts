// Light or dark: as the system says, or as somebody chose. Kept in the browser.
import { useState } from 'preact/hooks'

export type Theme = 'system' | 'light' | 'dark'

const themes: readonly Theme[] = ['system', 'light', 'dark']
const place = 'holdfast.theme'

function readTheme(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem(place)) ?? 'system'
  } catch {
    return 'system' // A browser that keeps nothing.
  }
}

export function applyTheme(theme: Theme = readTheme()): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
  dispatchEvent(new Event('themechange'))
}

/** The theme, and what changes it to the next one. */
export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState(readTheme)
  const next = () => {
    const following = themes[(themes.indexOf(theme) + 1) % themes.length]!
    try {
      localStorage.setItem(place, following)
    } catch {
      // Then it lasts as long as the page.
    }
    applyTheme(following)
    setTheme(following)
  }
  return [theme, next]
}
