// How times, numbers and names are written.
import { formatDuration } from '../src/base/durations.js'

/** `950ms`, `2.5s`, `3m 20s`: the same as on the command line. */
export { formatDuration }

/** A span that counts: in whole seconds, so that it does not flicker. */
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

const inUtc = { timeZone: 'UTC', hourCycle: 'h23' } as const
const clockTime = new Intl.DateTimeFormat('en-GB', { ...inUtc, timeStyle: 'medium' })
const dayTime = new Intl.DateTimeFormat('en-GB', {
  ...inUtc,
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
})

/** `14:03:11`, in UTC like the logs of a server. */
export function formatClock(time: number): string {
  return clockTime.format(time)
}

/** `14:03:11`, or with its day when that is another one than `today`. */
export function formatMoment(time: number, today: number): string {
  const isToday = new Date(time).toISOString().slice(0, 10) === new Date(today).toISOString().slice(0, 10)
  return isToday ? formatClock(time) : dayTime.format(time)
}

const maxWhole = 2_000

/** What cannot be seen, or turns the direction of the text; and halves of characters. */
const invisible = /[\p{Cc}\p{Cf}\u2028\u2029]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu

/** Left to right, also in a text of the other direction. */
const escapeText = (as: string) => `\u2066\\${as}\u2069`

const escapes: Readonly<Record<string, string>> = {
  '\n': escapeText('n'),
  '\r': escapeText('r'),
  '\t': escapeText('t'),
  // Joiners make one emoji of several, and are letters of some scripts.
  '\u200c': '\u200c',
  '\u200d': '\u200d',
}

/** A name as one can read it, with what is invisible written out: names are anybody's text. */
export function visible(text: string): string {
  const cut = text.length > maxWhole ? `${text.slice(0, maxWhole)}…` : text
  return cut.replace(
    invisible,
    (character) => escapes[character] ?? escapeText(`u{${character.codePointAt(0)!.toString(16)}}`),
  )
}

/** Cut in the middle: the ends of names tell most, `invoice:…:retry`. */
export function shorten(text: string, max: number): string {
  const characters = [...visible(text)]
  if (characters.length <= max) return characters.join('')
  const tail = Math.floor((max - 1) / 3)
  return `${characters.slice(0, max - 1 - tail).join('')}…${characters.slice(characters.length - tail).join('')}`
}
