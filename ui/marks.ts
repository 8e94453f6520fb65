// Assigns a letter and a colour to each instance. The letter comes from the name: `W3` for `web-3`, `A` for `Ada`. The
// default name, which consists of a host and a process ID, does not identify the instance, so the letter is derived
// from the ID. If the letter is in use, a free letter is used instead. The browser stores the letters across reloads,
// so that an instance keeps its letter.

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const colours = 12
const storageKey = 'holdfast.marks'
/** Time after which an unused letter can be assigned to another instance. */
const storedMs = 3_600_000

export interface Mark {
  /** One to three characters, such as `K`, `W3` or `W12`. */
  readonly letter: string
  /** Style that sets `--mark` to the instance's colour, which is one of `--mark-0` to `--mark-11`. */
  readonly style: { readonly '--mark': string }
}

interface StoredMark {
  readonly letter: string
  seenAt: number
}

const marks = new Map<string, StoredMark>(readStored())

export function markOf(id: string, name: string | null | undefined): Mark {
  const seenAt = Date.now()
  let mark = marks.get(id)
  if (mark) mark.seenAt = seenAt
  else {
    for (const [other, otherMark] of marks) if (otherMark.seenAt < seenAt - storedMs) marks.delete(other)
    mark = { letter: nextFree(id, name), seenAt }
    marks.set(id, mark)
  }
  return { letter: mark.letter, style: { '--mark': `var(--mark-${colourOf(mark.letter)})` } }
}

/** Returns the letters that suit a name, starting with the best. Example: `W3` and `WE` for `web-3`. */
function lettersOf(name: string): string[] {
  const [, initial, second] = /^[^a-z]*([a-z])([a-z]?)/i.exec(name.toUpperCase()) ?? []
  // The default name is `host/process ID`.
  if (initial === undefined || /\/\d+$/.test(name)) return []
  const number = /\d{1,2}$/.exec(name)?.[0] ?? ''
  return [initial + number, `${initial}${second}${number}`].filter((letter) => letter.length <= 3)
}

function nextFree(id: string, name: string | null | undefined): string {
  const taken = new Set([...marks.values()].map(({ letter }) => letter))
  const own = lettersOf(name ?? '').find((letter) => !taken.has(letter))
  if (own !== undefined) return own
  const first = hash(id) % letters.length
  for (let lap = 1; ; lap++) {
    for (let step = 0; step < letters.length; step++) {
      const letter = letters[(first + step) % letters.length]! + (lap === 1 ? '' : lap)
      if (!taken.has(letter)) return letter
    }
  }
}

/** Returns the index of a letter's colour. The factor 7 gives adjacent letters different colours. */
function colourOf(letter: string): number {
  const rest = letter.slice(1)
  const after = rest === '' ? 0 : Number(rest) || rest.charCodeAt(0)
  return (letters.indexOf(letter[0]!) * 7 + after) % colours
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193) >>> 0
  return value
}

function readStored(): [string, StoredMark][] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey) ?? '[]')
    return Array.isArray(stored) ? stored : []
  } catch {
    return []
  }
}

addEventListener('pagehide', () => {
  try {
    localStorage.setItem(storageKey, JSON.stringify([...marks]))
  } catch {
    // Ignores the error, which means that the browser does not allow this page to store data.
  }
})
