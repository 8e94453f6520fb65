// Selects the light or the dark theme, by the system's preference or by the visitor's stored choice.
import { useState } from 'preact/hooks'
import { readSetting, writeSetting } from './settings.js'

export type Theme = 'system' | 'light' | 'dark'

const themes: readonly Theme[] = ['system', 'light', 'dark']

function readTheme(): Theme {
  const stored = readSetting('theme')
  return themes.find((theme) => theme === stored) ?? 'system'
}

export function applyTheme(theme: Theme = readTheme()): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
  dispatchEvent(new Event('themechange'))
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('themechange')))

/** Returns the current theme and a function that switches to the next theme. */
export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState(readTheme)
  const next = () => {
    const following = themes[(themes.indexOf(theme) + 1) % themes.length]!
    writeSetting('theme', following)
    applyTheme(following)
    setTheme(following)
  }
  return [theme, next]
}

const probe = document.createElement('span')
// With reduced motion, transitions take 1 ms. During this time, the probe would still have the previous colour.
probe.style.transitionProperty = 'none'

/** Returns a colour token's current value, for use in a canvas. The value changes with the `themechange` event. */
export function colourOf(token: `--${string}`): string {
  if (!probe.isConnected) document.documentElement.append(probe)
  probe.style.color = `var(${token})`
  return getComputedStyle(probe).color
}
