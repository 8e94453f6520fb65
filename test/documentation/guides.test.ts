// Checks that each guide is short, and that the tables of contents are complete.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from './lines.js'

const maxWords = 800

const pagesIn = (folder: string) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md') && name !== 'README.md')
    .map((name) => `${folder}/${name}`)
const read = (page: string) => readFileSync(join(root, page), 'utf8')

/** Counts the words of a page, including its tables, without code blocks and the addresses of links. */
function wordsIn(text: string): number {
  const plain = text.replaceAll(/^```.*?^```/gms, '').replaceAll(/\]\([^)]*\)/g, ']')
  return plain.split(/\s+/).filter((word) => /[a-z0-9]/i.test(word)).length
}

test.each([...pagesIn('docs/guides'), ...pagesIn('docs/guides/coming-from')])('%s has at most 800 words', (page) => {
  expect(wordsIn(read(page))).toBeLessThanOrEqual(maxWords)
})

test.each(['docs/guides', 'docs/guides/coming-from', 'docs/operating', 'docs/concepts'])(
  '%s/README.md links to each page of the folder',
  (folder) => {
    const contents = read(`${folder}/README.md`)
    const missing = pagesIn(folder).filter((page) => !contents.includes(`](${basename(page)}`))
    expect(missing).toEqual([])
  },
)

test('the questions name only error codes and classes that exist', () => {
  const errors = read('docs/reference/errors.md')
  const questions = read('docs/operating/faq.md')
  const codes = [...questions.matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g)].map(([, code]) => code!)
  const classes = [...questions.matchAll(/\b([A-Z]\w+Error)\b/g)].map(([, name]) => name!)
  const isOurs = (name: string) => !['DATABASE_URL', 'TypeError', 'SyntaxError'].includes(name)
  const unknown = [...codes, ...classes].filter((name) => isOurs(name) && !errors.includes(name))
  expect([codes.length > 5, classes.length > 5, unknown]).toEqual([true, true, []])
})
