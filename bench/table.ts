// Formats plain tables for a terminal. The first column is aligned to the left, and the other columns to the right.

export type Cell = string | number | null | undefined

export function table(head: string[], rows: Cell[][]) {
  // A row may have fewer cells than the head.
  const cells = [head, ...rows].map((row: Cell[]) => head.map((_, column) => cell(row[column])))
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]!.length)))
  const lines = cells.map((row) =>
    row
      .map((text, column) => (column === 0 ? text.padEnd(widths[0]!) : text.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  )
  lines.splice(1, 0, widths.map((width) => '─'.repeat(width)).join('  '))
  return lines.join('\n')
}

function cell(value: Cell) {
  if (value === undefined || value === null || Number.isNaN(value)) return ''
  return typeof value === 'number' ? value.toLocaleString('en') : String(value)
}
