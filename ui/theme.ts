// Light or dark: as the system says, or as somebody chose. Kept in the browser.
import { useState } from 'preact/hooks'

export type Theme = 'system' | 'light' | 'dark'

const themes: readonly Theme[] = ['system', 'light', 'dark']
const storageKey = 'holdfast.theme'

function readTheme(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem(storageKey)) ?? 'system'
  } catch {
    return 'system' // A browser that keeps nothing.
  }
}

export function applyTheme(theme: Theme = readTheme()): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
  dispatchEvent(new Event('themechange'))
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('themechange')))

/** The theme, and what changes it to the next one. */
export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState(readTheme)
  const next = () => {
    const following = themes[(themes.indexOf(theme) + 1) % themes.length]!
    try {
      localStorage.setItem(storageKey, following)
    } catch {
      // Then it lasts as long as the page.
    }
    applyTheme(following)
    setTheme(following)
  }
  return [theme, next]
}

const probe = document.createElement('span')
// Whoever wants no motion has transitions of a moment, in which a colour is still the one before.
probe.style.transitionProperty = 'none'

/** What a token is at the moment, for what is drawn on a canvas: `colourOf('--good')`. It is another one after `themechange`. */
export function colourOf(token: `--${string}`): string {
  if (!probe.isConnected) document.documentElement.append(probe)
  probe.style.color = `var(${token})`
  return getComputedStyle(probe).color
}
