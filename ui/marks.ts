// Assigns a letter and a colour to each instance. The letter is derived from the id, so different visitors usually see
// the same letter. If the letter is taken, the next free letter is used. The browser stores the letters across reloads.

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const colours = 12
const storageKey = 'holdfast.marks'
/** Time after which an unused letter can be assigned to another instance. */
const storedMs = 3_600_000

export interface Mark {
  /** Letter such as `K`. With more instances than letters, a number follows, as in `K2`. */
  readonly letter: string
  /** Style that sets `--mark` to the instance's colour, which is one of `--mark-0` to `--mark-11`. */
  readonly style: { readonly '--mark': string }
}

interface StoredMark {
  readonly letter: string
  seenAt: number
}

const marks = new Map<string, StoredMark>(readStored())

export function markOf(id: string): Mark {
  const seenAt = Date.now()
  let mark = marks.get(id)
  if (mark) mark.seenAt = seenAt
  else {
    for (const [other, otherMark] of marks) if (otherMark.seenAt < seenAt - storedMs) marks.delete(other)
    mark = { letter: nextFree(id), seenAt }
    marks.set(id, mark)
  }
  return { letter: mark.letter, style: { '--mark': `var(--mark-${colourOf(mark.letter)})` } }
}

function nextFree(id: string): string {
  const first = hash(id) % letters.length
  const taken = new Set([...marks.values()].map(({ letter }) => letter))
  for (let lap = 1; ; lap++) {
    for (let step = 0; step < letters.length; step++) {
      const letter = letters[(first + step) % letters.length]! + (lap === 1 ? '' : lap)
      if (!taken.has(letter)) return letter
    }
  }
}

/** Returns the index of a letter's colour. The factor 7 gives adjacent letters different colours. */
function colourOf(letter: string): number {
  return (letters.indexOf(letter[0]!) * 7 + (Number(letter.slice(1)) || 1) - 1) % colours
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
    // Ignores the error: the browser does not allow this page to store data.
  }
})
