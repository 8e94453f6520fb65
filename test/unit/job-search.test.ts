import { expect, test } from 'vitest'
import { UsageError } from '../../src/base/index.js'
import { readJobSearch, readSearch, writeSearchValue } from '../../src/search/index.js'

const nothing = { ids: [], queues: [], kinds: [], lanes: [], waits: [], input: [], meta: [], onlyFailed: [] }
const every = ['ready', 'running', 'waiting', 'done', 'cancelled', 'discarded', 'buried']

test.each([
  ['', {}],
  ['  \n ', {}],
  ['17', { ids: [17] }],
  ['id:17 18', { ids: [17, 18] }],
  ['queue:mail queue:sms', { queues: ['mail', 'sms'] }],
  ['lane:shop:7', { lanes: ['shop:7'] }],
  ['kind:"send email"', { kinds: ['send email'] }],
  ['kind:"say \\"so\\" \\\\ "', { kinds: ['say "so" \\ '] }],
  ['kind:it"s', { kinds: ['it"s'] }],
  ['state:buried state:ready', { states: ['ready', 'buried'] }],
  [
    'state:failed',
    { states: ['ready', 'running', 'waiting', 'buried'], onlyFailed: ['ready', 'running', 'waiting', 'buried'] },
  ],
  [
    'state:failed state:ready state:done',
    { states: ['ready', 'running', 'waiting', 'done', 'buried'], onlyFailed: ['running', 'waiting', 'buried'] },
  ],
  ['waits:lane', { waits: ['lane'], states: ['waiting'] }],
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
  ['mail', 'Expected a job number, or a keyword such as kind:, got "mail"', 'For example, kind:mail'],
  ['0', 'Expected a job number, or a keyword such as kind:, got "0"', undefined],
  ['id:x', 'Expected id to be a job number, got "x"', undefined],
  ['17 state:done', 'Expected a job number without other search terms', 'For example, 17'],
  ['queue:', 'Expected a value after "queue:", got nothing', 'For example, queue:mail'],
  ['state:burried', 'Expected state to be one of ready, ', 'Did you mean state:buried?'],
  [
    'stat:buried',
    'Expected one of queue, state, kind, lane, waits, input, meta, id before the colon, got "stat"',
    'Did you mean state:?',
  ],
  ['shop:7', 'before the colon, got "shop"', 'A value that contains a colon'],
  ['waits:money', 'Expected waits to be one of time, attempt, lane, jobs, got "money"', undefined],
  [
    'waits:lane state:done',
    'Expected state:waiting together with waits:, got state:done',
    'The keyword waits: matches only jobs in the state "waiting"',
  ],
  ['input..a:1', 'Expected a path such as input.user.id or meta.tags, got "input..a"', undefined],
  ['meta.:1', 'Expected a path such as input.user.id or meta.tags, got "meta."', undefined],
  ['kind:"send', 'Expected a closing quote after "send, got the end of the search text', undefined],
  ['x'.repeat(2_000), 'Expected a search text of at most 1000 characters, got 2000', undefined],
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
