// Plain tables for a terminal: the first column to the left, numbers to the right.

export function table(head, rows) {
  const cells = [head, ...rows].map((row) => row.map(cell))
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column].length)))
  const lines = cells.map((row) =>
    row
      .map((text, column) => (column === 0 ? text.padEnd(widths[0]) : text.padStart(widths[column])))
      .join('  ')
      .trimEnd(),
  )
  lines.splice(1, 0, widths.map((width) => '─'.repeat(width)).join('  '))
  return lines.join('\n')
}

function cell(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return ''
  return typeof value === 'number' ? value.toLocaleString('en') : String(value)
}
