export const gap = '  '
/** Minimum column width. Narrower columns would be unreadable, so long lines are left to wrap in the terminal. */
const minWidth = 8

const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
const segments = new Intl.Segmenter()

/** Returns the number of terminal columns that a text occupies. */
export function displayWidth(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of segments.segment(text)) width += wide.test(segment) ? 2 : 1
  return width
}

/** Computes the column widths with which each line fits into `room` terminal columns. */
export function widthsFor(lines: readonly string[][], room: number): number[] {
  // Without spread arguments, because Math.max accepts only about 120,000 arguments.
  const widths = lines[0]!.map((_, column) =>
    lines.reduce((widest, line) => Math.max(widest, displayWidth(line[column]!)), 0),
  )
  let over = widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1) - room
  // The widest column shrinks first, so that short columns keep their full text.
  for (; over > 0; over--) {
    const widest = widths.indexOf(Math.max(...widths))
    if (widths[widest]! <= minWidth) break
    widths[widest]!--
  }
  return widths
}

/** Computes column widths for the lines, and returns a function that lays out one line. */
export function layoutFor(lines: readonly string[][], room: number) {
  const widths = widthsFor(lines, room)
  return (line: string[], paint: (text: string, column: number) => string): string =>
    line
      .map((text, column) => {
        const cut = shorten(text, widths[column]!)
        const isLast = column === line.length - 1
        return paint(cut, column) + (isLast ? '' : ' '.repeat(Math.max(0, widths[column]! - displayWidth(cut))))
      })
      .join(gap)
      .trimEnd()
}

/** Breaks a text between words. A word that is longer than `width` stays whole. */
export function wrap(text: string, width: number): string[] {
  const lines = ['']
  for (const word of text.split(' ')) {
    const extended = lines.at(-1) ? `${lines.at(-1)} ${word}` : word
    if (lines.at(-1) === '' || displayWidth(extended) <= width) lines[lines.length - 1] = extended
    else lines.push(word)
  }
  return lines
}

/** Shortens a text that does not fit, and marks its end with `…`. */
export function shorten(text: string, width: number): string {
  if (displayWidth(text) <= width) return text
  let cut = ''
  let used = 0
  for (const { segment } of segments.segment(text)) {
    used += displayWidth(segment)
    if (used > width - 1) break
    cut += segment
  }
  return `${cut}…`
}
