// Time zone in which the pages show times: UTC, as in server logs, or the browser's time zone.
import { useEffect, useState } from 'preact/hooks'
import { readSetting, writeSetting } from './settings.js'

export type Zone = 'utc' | 'local'

const name = 'zone'
let chosen: Zone = readSetting(name) === 'local' ? 'local' : 'utc'

export function zone(): Zone {
  return chosen
}

/** Returns the browser's difference from UTC at this time. Example: `UTC+01:00`. */
export function localOffset(time: number): string {
  const minutes = -new Date(time).getTimezoneOffset()
  const two = (value: number) => String(Math.floor(Math.abs(value))).padStart(2, '0')
  return `UTC${minutes < 0 ? '-' : '+'}${two(minutes / 60)}:${two(minutes % 60)}`
}

/** Returns the chosen time zone for functions of `Intl`. Undefined for the browser's time zone. */
export function intlZone(): 'UTC' | undefined {
  return chosen === 'utc' ? 'UTC' : undefined
}

/** Returns the label of the chosen time zone: `UTC`, or `UTC+01:00` for the browser's time zone. */
export function zoneLabel(time: number): string {
  return chosen === 'utc' ? 'UTC' : localOffset(time)
}

/** Returns the difference between the chosen time zone and UTC at this time, in ms. */
export function zoneOffsetMs(time: number): number {
  return chosen === 'utc' ? 0 : -new Date(time).getTimezoneOffset() * 60_000
}

/**
 * Returns the chosen time zone and a function that switches to the other time zone. The browser remembers the choice.
 */
export function useZone(): readonly [Zone, () => void] {
  const [shown, setShown] = useState(chosen)
  useEffect(() => {
    const changed = () => setShown(chosen)
    addEventListener('zonechange', changed)
    return () => removeEventListener('zonechange', changed)
  }, [])
  const next = () => {
    chosen = chosen === 'utc' ? 'local' : 'utc'
    writeSetting(name, chosen)
    dispatchEvent(new Event('zonechange'))
  }
  return [shown, next]
}
