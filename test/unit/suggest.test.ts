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
])('suggest(%s) returns %s', (given, expected) => {
  expect(suggest(given, words)).toBe(expected)
})

test.each(['', 'zzz', 'ttl', 'concurrency'])('suggest(%j) returns undefined', (given) => {
  expect(suggest(given, words)).toBeUndefined()
})

test('suggest returns the most similar candidate, and undefined without candidates', () => {
  expect(suggest('modes', ['node', 'mode'])).toBe('mode')
  expect(suggest('mode', [])).toBeUndefined()
})
