// Which letter and colour an instance has. The letter comes from its id, so that two people see the same one; where two would have
// the same, the later takes the next free letter. That is kept in the browser, so that the letters stay over a reload.

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const colours = 12
const storageKey = 'holdfast.marks'
/** The letter of an instance that was not seen for so long is free for others. */
const storedMs = 3_600_000

export interface Mark {
  /** `K`, or `K2` when there are more instances than letters. */
  readonly letter: string
  /** The number of a colour: `--mark-0` to `--mark-11`. */
  readonly colour: number
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
  return { letter: mark.letter, colour: colourOf(mark.letter) }
}

function nextFree(id: string): string {
  const first = hash(id) % letters.length
  const taken = new Set([...marks.values()].map(({ letter }) => letter))
  for (let round = 1; ; round++) {
    for (let step = 0; step < letters.length; step++) {
      const letter = letters[(first + step) % letters.length]! + (round === 1 ? '' : round)
      if (!taken.has(letter)) return letter
    }
  }
}

/** Neighbours in the alphabet look different: seven and twelve have no common divisor. */
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
    // A browser that keeps nothing.
  }
})
