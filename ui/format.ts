// Functions that format times, numbers and names.
import { formatDuration } from '../src/base/durations.js'
import { localOffset, zone } from './zone.js'

/** Formats a duration as the command line does. Examples: `950ms`, `2.5s`, `3m 20s`. */
export { formatDuration }

/** Formats a duration for a text that is updated every second. Uses whole seconds, so the text does not flicker. */
export function formatCount(ms: number): string {
  return formatDuration(Math.max(0, Math.floor(ms / 1_000)) * 1_000 || 0).replace(/^0ms$/, '0s')
}

const whole = new Intl.NumberFormat('en')

export function formatNumber(value: number): string {
  return whole.format(value)
}

export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

function formatsIn(timeZone: 'UTC' | undefined) {
  const inZone = { timeZone, hourCycle: 'h23' } as const
  return {
    clock: new Intl.DateTimeFormat('en-GB', { ...inZone, timeStyle: 'medium' }),
    dayAndClock: new Intl.DateTimeFormat('en-GB', {
      ...inZone,
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      hour: '2-digit',
      minute: '2-digit',
    }),
    day: new Intl.DateTimeFormat('en-GB', { ...inZone, day: 'numeric', month: 'short' }),
    date: new Intl.DateTimeFormat('en-CA', { ...inZone, dateStyle: 'short' }),
  }
}

const formats = { utc: formatsIn('UTC'), local: formatsIn(undefined) } as const

/** Formats a time in the chosen time zone. Example: `14:03:11`. */
export function formatClock(time: number): string {
  return formats[zone()].clock.format(time)
}

/** Formats a time as `14:03:11`. Adds the day if the day is not `today`. */
export function formatMoment(time: number, today: number): string {
  const { date, dayAndClock } = formats[zone()]
  return date.format(time) === date.format(today) ? formatClock(time) : dayAndClock.format(time)
}

/** Formats a day in the chosen time zone. Example: `26 Nov`. */
export function formatDay(time: number): string {
  return formats[zone()].day.format(time)
}

/** Formats a time in both time zones, for a tooltip. */
export function formatFull(time: number): string {
  const { date, clock } = formats.local
  const utc = new Date(time).toISOString().replace('T', ' ').replace('Z', '')
  return `${utc} UTC\n${date.format(time)} ${clock.format(time)} local time (${localOffset(time)})`
}

const maxWhole = 2_000

/** Matches invisible characters, characters that change the text direction, and unpaired surrogates. */
const invisible = /[\p{Cc}\p{Cf}\u2028\u2029]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu

/** Returns an escape sequence that reads from left to right even in right-to-left text. */
const escapeText = (as: string) => `\u2066\\${as}\u2069`

const escapes: Readonly<Record<string, string>> = {
  '\n': escapeText('n'),
  '\r': escapeText('r'),
  '\t': escapeText('t'),
  // Joiners stay unescaped, because emoji and some scripts need them.
  '\u200c': '\u200c',
  '\u200d': '\u200d',
}

/** Returns a name in a readable form. Escapes invisible characters, because names may contain any text. */
export function visible(text: string): string {
  return cut(text, maxWhole).replace(
    invisible,
    (character) => escapes[character] ?? escapeText(`u{${character.codePointAt(0)!.toString(16)}}`),
  )
}

/** Truncates a text at its end. */
export function cut(text: string, max: number): string {
  return text.length > max ? `${text.slice(0, max)}…` : text
}

/** Shortens a text in the middle, because names usually differ at their ends. Example: `invoice:…:retry`. */
export function shorten(text: string, max: number): string {
  const characters = [...visible(text)]
  if (characters.length <= max) return characters.join('')
  const tail = Math.floor((max - 1) / 3)
  return `${characters.slice(0, max - 1 - tail).join('')}…${characters.slice(characters.length - tail).join('')}`
}
