// The track record names tests and planted bugs. They must exist.
import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mutations } from '../../faults/mutations.ts'

const page = readFileSync('docs/reference/track-record.md', 'utf8')
const cells = page
  .split('\n')
  .filter((line) => line.startsWith('| **'))
  .map((line) => line.split(' | ').at(-1)!)

test('every bug in the track record names a test or a planted bug that exists', () => {
  expect(cells.length).toBeGreaterThan(30)
  for (const cell of cells) {
    const files = [...cell.matchAll(/`(test\/[^`]+)`(?:, "([^"]+)")?/g)]
    const bugs = [...cell.matchAll(/planted bug `([^`]+)`/g)]
    expect(files.length + bugs.length, cell).toBeGreaterThan(0)
    for (const [, file, title] of files) {
      expect(existsSync(file!), file).toBe(true)
      if (title) expect(readFileSync(file!, 'utf8')).toContain(title)
    }
    for (const [, bug] of bugs) expect(mutations.map(({ name }) => name).join('\n')).toContain(bug)
  }
})
