// Which letter and colour an instance has. The letter comes from its id, so that two people see the same one; where two would have
// the same, the later takes the next free letter, and keeps it in this browser.

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
const colours = 12
const place = 'holdfast.marks'
const mostKept = 400

export interface Mark {
  /** `K`, or `K2` when there are more instances than letters. */
  readonly letter: string
  /** The number of a colour: `--mark-0` to `--mark-11`. */
  readonly colour: number
}

const marks = new Map<string, string>(readKept())
let isKept = true

export function markOf(id: string): Mark {
  let letter = marks.get(id)
  if (letter === undefined) {
    letter = nextFree(id)
    marks.set(id, letter)
    if (marks.size > mostKept) marks.delete(marks.keys().next().value!)
    keep()
  }
  return { letter, colour: colourOf(letter) }
}

function nextFree(id: string): string {
  const first = hash(id) % letters.length
  const taken = new Set(marks.values())
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

function readKept(): [string, string][] {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(place) ?? '[]')
    return Array.isArray(kept) ? kept : []
  } catch {
    return []
  }
}

function keep(): void {
  if (!isKept) return
  isKept = false
  setTimeout(() => {
    isKept = true
    try {
      sessionStorage.setItem(place, JSON.stringify([...marks]))
    } catch {
      // Then they last as long as the page.
    }
  }, 500)
}
