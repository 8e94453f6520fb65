import { expect, test } from 'vitest'
import { UsageError } from '../../src/base/index.js'
import { readJobSearch, readSearch, searchStateOf, writeSearchValue } from '../../src/search/index.js'

const nothing = {
  ids: [],
  queues: [],
  kinds: [],
  lanes: [],
  waits: [],
  errors: [],
  words: [],
  input: [],
  meta: [],
  since: null,
  until: null,
}
const every = ['ready', 'running', 'waiting', 'done', 'cancelled', 'expired', 'discarded', 'buried']

test.each([
  ['', {}],
  ['  \n ', {}],
  ['17', { words: ['17'] }],
  ['Timeout 503', { words: ['timeout', '503'] }],
  ['"a:b c"', { words: ['a:b c'] }],
  ['id:17,18 id:19', { ids: [17, 18, 19] }],
  ['queue:mail queue:sms', { queues: ['mail', 'sms'] }],
  ['error:"Upstream said 503"', { errors: ['upstream said 503'] }],
  ['since:1h until:2030-01-31T18:00Z', { since: 3_600_000, until: new Date('2030-01-31T18:00Z') }],
  ['since:2030-01-31', { since: new Date('2030-01-31') }],
  ['lane:shop:7', { lanes: ['shop:7'] }],
  ['kind:"send email"', { kinds: ['send email'] }],
  ['kind:"say \\"so\\" \\\\ "', { kinds: ['say "so" \\ '] }],
  ['kind:it"s', { kinds: ['it"s'] }],
  ['state:failed state:ready', { states: ['ready', 'buried'] }],
  ['state:buried', { states: ['buried'] }],
  ['state:in-lane state:retrying', { states: ['waiting'], waits: ['lane', 'attempt'] }],
  ['state:waiting state:retrying', { states: ['waiting'] }],
  [
    'input.user:42 input.a.0:"x y" input:null',
    {
      input: [
        { path: ['user'], value: '42' },
        { path: ['a', '0'], value: 'x y' },
        { path: [], value: 'null' },
      ],
    },
  ],
  ['input.user:""', { input: [{ path: ['user'], value: '' }] }],
  ['meta.tags:billing', { meta: [{ path: ['tags'], value: 'billing' }] }],
])('readJobSearch reads %j', (text, expected) => {
  expect(readJobSearch(text)).toEqual({ ...nothing, states: every, ...expected })
})

test.each([
  ['id:x', 'Expected id to be a job number, got "x"', undefined],
  ['id:17,0', 'Expected id to be a job number, got "0"', undefined],
  ['queue:', 'Expected a value after "queue:", got nothing', undefined],
  ['state:faild', 'Expected state to be one of running, ready, ', 'Did you mean state:failed?'],
  ['since:yesterday', 'Expected since to be a duration or a time with a time zone', 'For example, since:1h'],
  ['until:2030-01-31T18:00', 'Expected until to be a duration or a time with a time zone', undefined],
  [
    'stat:failed',
    'Expected one of queue, state, kind, error, since, until, lane, input, meta, id before the colon, got "stat"',
    'Did you mean state:?',
  ],
  ['shop:7', 'before the colon, got "shop"', 'quote it: "shop:…"'],
  ['input..a:1', 'Expected a path such as input.user.id or meta.tags, got "input..a"', undefined],
  ['meta.:1', 'Expected a path such as input.user.id or meta.tags, got "meta."', undefined],
  ['kind:"send', 'Expected a closing quote after "send, got the end of the search text', undefined],
  ['x'.repeat(2_001), 'Expected a search text of at most 2000 characters, got 2001', undefined],
  ['id:1 '.repeat(21), 'Expected at most 20 search terms, got 21', undefined],
])('readJobSearch refuses %j with an explanation', (text, message, hint) => {
  try {
    readJobSearch(text)
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    expect((error as UsageError).message).toContain(message)
    if (hint) expect((error as UsageError).hint).toContain(hint)
  }
})

test('readSearch returns the value that writeSearchValue wrote, also with special characters', () => {
  for (const value of ['mail', 'a b', 'it"s', '\\', 'x:"y" \\z', '', '"', 'ünï\u202e', '<script>']) {
    expect(readSearch(`kind:${writeSearchValue(value)} 1`)).toMatchObject([{ word: 'kind', value }, { value: '1' }])
  }
})

test('searchStateOf returns the most specific word for a state', () => {
  expect(searchStateOf({ state: 'waiting', waits: 'attempt' })).toBe('retrying')
  expect(searchStateOf({ state: 'waiting', waits: null })).toBe('waiting')
  expect(searchStateOf({ state: 'buried', waits: null })).toBe('failed')
  expect(searchStateOf({ state: 'waiting' })).toBe('waiting')
})
