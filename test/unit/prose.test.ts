import { expect, test } from 'vitest'
import { check } from '../../scripts/prose.js'

const found = (path: string, source: string) =>
  check(path, source).map(({ line, text }) => `${line} ${text.split(':')[0]}`)

test('the check of the English finds a replaced word in documentation, comments, SQL comments and messages', () => {
  expect(found('a.md', '# Whoever\n\nThe lock is free.\n\nThen whoever waits gets the lock.\n')).toEqual([
    '5 "whoever"',
  ])
  expect(found('a.md', '| who | what |\n|---|---|\n| worker | nobody waits |\n')).toEqual(['3 "nobody"'])
  expect(found('a.ts', "const a = 1\n// Whoever waits, gets it.\nconst b = 'no message'\n")).toEqual(['2 "Whoever"'])
  expect(found('a.sql', 'select 1;\n-- It goes on.\n')).toEqual(['2 "goes on"'])
  expect(found('a.ts', "throw new Error('The lock is not held any more.')\n")).toEqual(['1 "any more"'])
})

test('the check of the English finds long sentences, and doc comments that begin with a pronoun', () => {
  const long = `${'one word and '.repeat(12)}the end.`
  expect(found('a.md', long)).toEqual(['1 a sentence of 38 words'])
  expect(found('a.md', `${'one word. '.repeat(30)}`)).toEqual([])
  expect(found('a.ts', '/** What the worker waits for. */\nconst a = 1\n')).toEqual([
    '1 a doc comment begins with "What"',
  ])
  expect(found('a.ts', '/**\n * What the worker waits for.\n */\nconst a = 1\n')).toEqual([
    '2 a doc comment begins with "What"',
  ])
  expect(found('a.ts', '/** Whether the worker waits. */\nconst a = true\n')).toEqual([])
})

test('the check of the English ignores code', () => {
  expect(found('a.md', 'Run `whoever`.\n\n```sh\nwhoever\n```\n')).toEqual([])
  expect(found('a.ts', 'const whoever = 1\n')).toEqual([])
})
