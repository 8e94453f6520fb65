import { expect, test } from 'vitest'
import { suggest } from '../../src/base/index.js'

const words = ['wait', 'mode', 'signal', 'namespace', 'directUrl', 'expiry']

test.each([
  ['wiat', 'wait'],
  ['wai', 'wait'],
  ['WAIT', 'wait'],
  ['directURL', 'directUrl'],
  ['name_space', 'namespace'],
  ['expires', 'expiry'],
])('%s means %s', (given, meant) => {
  expect(suggest(given, words)).toBe(meant)
})

test.each(['', 'zzz', 'ttl', 'concurrency'])('%j means none of them', (given) => {
  expect(suggest(given, words)).toBeUndefined()
})

test('the nearest wins, and no candidates mean no suggestion', () => {
  expect(suggest('modes', ['node', 'mode'])).toBe('mode')
  expect(suggest('mode', [])).toBeUndefined()
})
