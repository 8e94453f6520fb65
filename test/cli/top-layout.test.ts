// Tests what the screen shows, without a terminal or a database.
import { describe, expect, test } from 'vitest'
import { displayWidth, widthsFor } from '../../src/cli/table.js'
import { databaseLines } from '../../src/cli/top/databases.js'
import { layOut, type Size, textOf } from '../../src/cli/top/layout.js'
import { firstView, type Key, press, type View, type WatchedDatabase } from '../../src/cli/top/view.js'
import type {
  Overview,
  OverviewInstance,
  OverviewLock,
  OverviewQueue,
  SessionOwner,
  Trouble,
} from '../../src/observe/index.js'

const small: Size = { columns: 80, rows: 24 }
const wide: Size = { columns: 160, rows: 50 }

const who: SessionOwner = {
  instance: 'a1',
  instanceName: 'web-1/123',
  host: 'web-1',
  osPid: 123,
  application: 'holdfast a1',
  pid: 4711,
}
const instance: OverviewInstance = {
  id: 'a1',
  name: 'web-1/123',
  namespace: 'shop',
  host: 'web-1',
  osPid: 123,
  version: '1.0.0',
  alive: true,
  state: 'open',
  held: 1,
  waiting: 0,
  leased: 0,
  workers: 1,
  reconnects: 1,
  openMs: 61_000,
}
const lock = (label: string, waiters = 0): OverviewLock => ({
  key: `key of ${label}`,
  namespace: 'shop',
  label,
  mode: 'exclusive',
  holders: 1,
  holder: who,
  heldMs: 12_345,
  fence: 42,
  waiters,
  waiter: waiters > 0 ? who : null,
  waitedMs: waiters > 0 ? 3_210 : null,
})
const queue = (name: string, more: Partial<OverviewQueue> = {}): OverviewQueue => ({
  key: name,
  name,
  namespace: 'shop',
  ready: 0,
  readyIs: 'counted',
  running: 0,
  waiting: 0,
  oldestMs: null,
  workers: 1,
  pausedMs: null,
  donePerSecond: 0,
  buried: 0,
  waited: null,
  took: null,
  ...more,
})
const trouble: Trouble = {
  kind: 'buried',
  at: new Date(0),
  agoMs: 5_000,
  namespace: 'shop',
  subject: 'mail',
  job: 7,
  jobKind: 'send',
  error: null,
  detail: 'send: the server said no, and it said so at such length that no line is long enough for it',
  instance: null,
  instanceName: null,
}

function overview(more: Partial<Overview> = {}): Overview {
  const whole = { instances: [instance], locks: [], leases: [], schedules: [], queues: [], trouble: [], ...more }
  return {
    at: new Date('2026-01-02T03:04:05Z'),
    server: '18.4 (Debian)',
    counts: {
      instances: whole.instances.length,
      gone: 0,
      held: whole.locks.length,
      waitedFor: 0,
      waiters: 0,
      leased: 0,
      schedules: 0,
      queues: whole.queues.length,
    },
    overMs: 60_000,
    ...whole,
  }
}

const database = (more: Partial<Overview> = {}): WatchedDatabase => ({
  ...{ name: null, address: 'app@db:5432/shop', overview: overview(more), outage: undefined },
})
const look = (more: Partial<Overview> = {}): View => firstView([database(more)], 'holdfast', 2_000)
const lines = (view: View, size: Size) => layOut(view, size).map(textOf)
const type = (view: View, ...keys: (string | Key)[]): View =>
  keys.reduce((before: View, key) => press(before, typeof key === 'string' ? keyOf(key) : key).view, view)
/** Returns the key as readline reports it. */
const keyOf = (word: string): Key =>
  [...word].length > 1 ? { name: word } : { name: word.toLowerCase(), text: word, shift: word !== word.toLowerCase() }

describe('80 by 24', () => {
  test('every panel shows its title, and the first panel has the focus', () => {
    const screen = lines(look({ locks: [lock('report', 2)], trouble: [trouble] }), small)
    expect(screen[0]).toBe('holdfast top  03:04:05 UTC  every 2s  app@db:5432/shop  PostgreSQL 18.4')
    expect(screen.slice(1, 9).map((line) => line.trimEnd())).toEqual([
      '1 INSTANCES 1  STATE  HOLDS  WAITS  LEASES  WORKERS  RECONNECTS    OPEN  ID',
      '> web-1/123    alive      1      0       0        1           1   1m 1s  a1',
      '2 LOCKS 1  MODE       HOLDER       HELD  WAITERS  LONGEST  FIRST IN LINE  FENCE',
      '  report   exclusive  web-1/123     12s        2       3s  web-1/123      42',
      '3 LEASES none',
      '4 SCHEDULES none',
      '5 QUEUES none',
      '6 PROBLEMS 1  PROBLEM     WHERE  REASON',
    ])
    expect(screen[9]).toMatch(/^ {2}5s ago {6}job failed {2}mail {3}send: the server said no, and it .*…$/)
    expect(screen.at(-1)).toMatch(/^\? help {2}q quit/)
  })

  test('a long list leaves room for the other panels and shows which rows are visible', () => {
    const locks = Array.from({ length: 150 }, (_, at) => lock(`name ${at}`))
    const view = look({ locks, trouble: [trouble, trouble, trouble] })
    const screen = lines(view, small)
    expect(screen.find((line) => line.startsWith('2 LOCKS'))).toMatch(/^2 LOCKS 1-12\/150 /)
    expect(screen.filter((line) => line.includes('job failed'))).toHaveLength(3)
    // The keys reach every row.
    const last = lines(type(view, 'tab', 'end'), small)
    expect(last.find((line) => line.startsWith('>'))).toContain('name 149')
    expect(last.find((line) => line.startsWith('2 LOCKS'))).toContain('-150/150 ')
  })
})

describe('160 by 50', () => {
  test('a wide screen shows held names on the left and work on the right', () => {
    const screen = lines(look({ locks: [lock('report')], queues: [queue('mail')] }), wide)
    expect(screen[1]).toMatch(/^1 INSTANCES 1 .* │ 4 SCHEDULES none/)
    expect(screen[2]!.indexOf(' │ ')).toBe(78)
    expect(screen[2]).toContain(' │ 5 QUEUES 1 ')
  })

  test('a panel that fills the screen shows more columns', () => {
    const view = look({ queues: [queue('mail', { took: { p50Ms: 12, p99Ms: 1_500 } })] })
    expect(lines(type(view, '5'), small).join()).not.toContain('WORKERS    STATE')
    const alone = lines(type(view, '5', 'z'), wide)
    expect(alone[1]).toMatch(/^5 QUEUES 1 .* TOOK +FAILED +WORKERS +STATE/)
    expect(alone[2]).toContain('12ms/1.5s')
    expect(alone[3]).toBe('')
  })
})

const names = {
  long: 'x'.repeat(500),
  'right to left': 'חשבונית:מספר ארבעים ושתיים של החברה הגדולה בעולם',
  wide: '請求書四十二号の長い長い長い長い長い長い長い名前',
  joined: '👩‍👩‍👧‍👦'.repeat(30),
  hostile: '\x1b[2J\n\u202e\0',
}

test.each(Object.entries(names))('a name that is %s stays in its line, and the columns stay aligned', (_, name) => {
  const more = {
    instances: [{ ...instance, host: name }],
    locks: [lock(name, 1), lock('plain')],
    queues: [queue(name)],
    trouble: [{ ...trouble, detail: name }],
  }
  for (const size of [small, wide, { columns: 200, rows: 60 }, { columns: 40, rows: 12 }, { columns: 7, rows: 4 }]) {
    for (const view of [look(more), type(look(more), 'tab', 'z'), type(look(more), 'tab', 'return')]) {
      const screen = lines(view, size)
      expect(screen).toHaveLength(size.rows)
      // Details break between words, and the terminal cuts a word that is longer than a line.
      if (view.shows === 'panels')
        for (const line of screen) expect(displayWidth(line)).toBeLessThanOrEqual(size.columns)
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the test checks that there are none
      for (const line of screen) expect(line).not.toMatch(/[\x00-\x1f\u202e]/)
    }
  }
  const [one, other] = lines(look({ locks: [lock(name, 1), lock('plain')] }), small).slice(4, 6)
  const before = (line: string) => displayWidth(line.slice(0, line.indexOf('exclusive')))
  expect(before(one!)).toBe(before(other!))
})

test.each([
  [0, 0],
  [1, 1],
  [20, 3],
  [80, 7],
  [300, 100],
])('a screen of %i by %i is filled exactly', (columns, rows) => {
  const locks = Array.from({ length: 30 }, (_, at) => lock(`name ${at}`))
  for (const view of [look({ locks }), type(look({ locks }), '2'), type(look({ locks }), '?')]) {
    const screen = lines(view, { columns, rows })
    expect(screen).toHaveLength(rows)
    for (const line of screen) expect(displayWidth(line)).toBeLessThanOrEqual(columns)
  }
})

test('a screen that is too low for all panels shows the panel that has the focus', () => {
  expect(lines(type(look({ queues: [queue('mail')] }), '5'), { columns: 80, rows: 6 })[1]).toMatch(/^5 QUEUES/)
})

describe('keys', () => {
  const rows = { locks: [lock('b', 1), lock('a', 3), lock('c')] }
  const order = (view: View) =>
    lines(type(view, 'z'), small)
      .slice(2, 5)
      .map((line) => line.slice(0, 3))

  test('tab, the arrows and the digits move the focus between panels and wrap around', () => {
    expect(type(look(), 'tab', 'tab').focus).toBe(2)
    expect(type(look(), { name: 'tab', shift: true }).focus).toBe(5)
    expect(type(look(), 'left').focus).toBe(5)
    expect(type(look(), '4', 'right').focus).toBe(4)
    expect(type(look(), '9').focus).toBe(0)
  })

  test('the sort keys sort by a column, reverse the order, and restore the original order', () => {
    const view = type(look(rows), '2')
    expect(order(view)).toEqual(['> b', '  a', '  c'])
    expect(order(type(view, 's'))).toEqual(['> a', '  b', '  c'])
    expect(order(type(view, 's', 'S'))).toEqual(['> c', '  b', '  a'])
    // Sorted by waiters, the largest number first. The cursor stays on its row.
    expect(order(type(view, 'down', 'up', 's', 's', 's', 's', 's', 's'))).toEqual(['  a', '> b', '  c'])
    expect(lines(type(view, 's', 's', 's', 's', 's', 's'), small).join()).toContain('WAITERS↓')
    expect(order(type(view, ...Array(10).fill('s')))).toEqual(['> b', '  a', '  c'])
  })

  test('the filter accepts letters that are keys elsewhere', () => {
    const view = type(look({ locks: [lock('Quick'), lock('slow')] }), '2', '/', 'q', 'U')
    expect(lines(view, small).at(-1)).toBe('filter locks: qU_  enter applies, esc clears')
    const kept = type(view, 'return')
    expect(lines(kept, small).join()).toContain('Quick')
    expect(lines(kept, small).join()).not.toContain('slow')
    expect(lines(type(kept, 'escape'), small).join()).toContain('slow')
    expect(lines(type(view, 'backspace', 'backspace'), small).join()).toContain('slow')
  })

  test('the cursor follows its row, and stays near its place when the row disappears', () => {
    const view = type(look(rows), '2', 'down', 'down')
    const here = (now: Partial<Overview>) =>
      lines({ ...view, databases: [database(now)] }, small).find((line) => line.startsWith('>'))
    expect(here({ locks: [lock('c'), lock('b')] })).toMatch(/^> c/)
    expect(here({ locks: [lock('x'), lock('y')] })).toMatch(/^> y/)
    expect(here({ locks: [] })).toBeUndefined()
  })

  test('return shows all details of a row, even after the row has disappeared', () => {
    const view = type(look(rows), '2', 'return')
    expect(lines(view, small)).toContain('  more            holdfast lock show --namespace shop b')
    expect(lines(type(view, 'down'), small)).toContain('  name            a')
    const gone = { ...view, databases: [database()] }
    expect(lines(gone, small)).toContain('  This row is no longer listed.')
    expect(type(view, 'q').shows).toBe('panels')
    expect(type(look(), '3', 'return').shows).toBe('panels')
  })

  test('the command that shows more identifies the same row for any label, namespace and schema', () => {
    const more = (one: Partial<Overview>, panel: string, schema?: string) => {
      const view = look(one)
      return lines(type(schema === undefined ? view : { ...view, schema }, panel, 'return'), { columns: 200, rows: 50 })
        .find((line) => line.startsWith('  more'))
        ?.slice(8)
        .trim()
    }
    const seen = (label: string | null, namespace: string | null): Partial<Overview> => ({
      locks: [{ ...lock('a'), key: '-42', label, namespace }],
    })
    expect(more(seen("it's; rm -rf", 'shop'), '2')).toBe("holdfast lock show --namespace shop 'it'\\''s; rm -rf'")
    expect(more(seen('-x', 'a b'), '2')).toBe("holdfast lock show --namespace 'a b' -- -x")
    expect(more(seen('a', 'default'), '2', 'Own')).toBe('holdfast lock show --schema Own a')
    for (const [label, namespace] of [
      [null, null],
      ['7/5', ''],
      ['seat#5', 'shop'],
    ] as const) {
      expect(more(seen(label, namespace), '2')).toBe('holdfast lock show --key -- -42')
    }
    expect(more({ queues: [queue('mail')] }, '5')).toBe('holdfast job ls --namespace shop --queue mail')
    expect(more({ trouble: [trouble] }, '6')).toBe('holdfast job show 7')
  })

  test('the keys pause, change the interval, show the help, and quit', () => {
    expect(lines(type(look(), 'p'), small)[0]).toContain('UTC  paused')
    expect(type(look(), 'p', 'space').isPaused).toBe(false)
    expect(type(look(), '+').intervalMs).toBe(5_000)
    expect(type(look(), '-').intervalMs).toBe(1_000)
    expect(type(look(), ...Array(20).fill('-')).intervalMs).toBe(250)
    expect(lines(type(look(), '?'), small).join()).toContain('q                       quit')
    expect(lines(type(look(), '?', 'q'), small).join()).toContain('INSTANCES')
    const wish = (key: Key) => press(look(), key).wish
    expect(wish({ name: 'q', text: 'q' })).toBe('quit')
    expect(wish({ name: 'c', ctrl: true })).toBe('quit')
    expect(wish({ name: 'z', ctrl: true })).toBe('suspend')
    expect(wish({ name: 'l', ctrl: true })).toBe('redraw')
    expect(wish({ name: 'r', text: 'r' })).toBe('refresh')
  })
})

test('an outage shows how long the database has not responded, and keeps the last data', () => {
  const outage = { reason: 'connection refused', forMs: 12_900 }
  const view = { ...look(), databases: [{ ...database({ locks: [lock('report')] }), outage }] }
  const screen = lines(view, small)
  expect(screen.at(-1)).toBe(' No response for 12s, still trying: connection refused ')
  expect(screen.join()).toContain('report')
})

test('the queue panel marks counted and estimated numbers differently', () => {
  const queues = [
    queue('a', { ready: 1_000, workers: 0 }),
    queue('b', { ready: 1_001, readyIs: 'at least', waiting: 1_001, pausedMs: 5 }),
    queue('c', { ready: 1_234_567, readyIs: 'estimated' }),
    queue('d', { ready: 12_345, readyIs: 'estimated' }),
  ]
  const [a, b, c, d] = lines(type(look({ queues }), '5', 'z'), wide)
    .slice(2)
    .map((line) => line.trimEnd())
  expect(a).toMatch(/^> a +1000 .* no workers$/)
  expect(b).toMatch(/^ {2}b +1000\+ +0 +1000\+ .* paused$/)
  expect(c).toMatch(/^ {2}c +~1.2M /)
  expect(d).toMatch(/^ {2}d +~12k /)
})

test('the totals of a database are marked if it has more queues than the overview lists', () => {
  const many = database({ queues: [queue('mail', { ready: 7, running: 2 })] })
  const counts = { ...many.overview!.counts, queues: 250 }
  const line = textOf(databaseLines([{ ...many, overview: { ...many.overview!, counts } }], 120)[1]!)
  expect(line).toMatch(/ 250 +7\+ +2\+ /)
})

test('the widths of a table with very many rows are computed', () => {
  const rows = Array.from({ length: 200_000 }, (_, at) => [String(at)])
  expect(widthsFor(rows, 80)).toEqual([6])
})

describe('several databases', () => {
  const outage = { reason: 'connection refused', forMs: 12_900 }
  const databases: WatchedDatabase[] = [
    { ...database({ queues: [queue('mail', { ready: 7, oldestMs: 61_000 })], trouble: [trouble] }), name: 'eu' },
    { ...database(), name: 'us', overview: undefined, outage },
    { ...database({ queues: [queue('pdf', { ready: 1_001, readyIs: 'at least' })] }), name: 'ap' },
  ]
  const all = firstView(databases, 'holdfast', 2_000)

  test('the list shows each database, one that is down, the sums, and the problems of all', () => {
    const screen = lines(all, wide).map((line) => line.trimEnd())
    expect(screen[0]).toBe('holdfast top  3 databases  every 2s')
    expect(screen.slice(1, 6)).toEqual([
      '  DATABASE  STATE      INSTANCES  LOST  QUEUES  READY  RUNNING  DONE/S  OLDEST  PROBLEMS',
      '> eu        up         1          0     1       7      0        0       1m 1s   1',
      '  us        down 12s   -          -     -       -      -        -       -       -',
      '  ap        up         1          0     1       1001+  0        0               0',
      '  all       2 of 3 up  2          0     2       1008+  0        0       1m 1s   1',
    ])
    expect(screen[7]).toBe('  DATABASE  WHEN    PROBLEM     WHERE  REASON')
    expect(screen[8]).toMatch(/^ {2}eu +5s ago +job failed +mail +send: the server said no/)
    expect(lines(all, small).every((line) => displayWidth(line) <= 80)).toBe(true)
  })

  test('keys open a database, show the next one, and lead back to the list', () => {
    const eu = type(all, 'return')
    expect(lines(eu, small)[0]).toContain('holdfast top  eu (1/3)  03:04:05 UTC')
    const us = type(eu, 'd')
    expect(lines(us, small)[0]).toContain('us (2/3)')
    expect(lines(us, small).at(-1)).toContain('No response for 12s')
    expect(lines(us, small).join()).toContain('2 LOCKS none')
    expect(lines(type(us, 'D', 'D'), small)[0]).toContain('ap (3/3)')
    for (const back of ['a', 'escape']) expect(type(us, back).shows).toBe('databases')
    expect(lines(type(us, 'a'), wide)[3]).toMatch(/^> us/)
    expect(type(all, '?', 'q').shows).toBe('databases')
    expect(press(all, { name: 'q' }).wish).toBe('quit')
    // A filter is cleared first.
    expect(type(eu, '/', 'x', 'return', 'escape').shows).toBe('panels')
    // With one database, these keys do nothing.
    expect(type(look(), 'd', 'a')).toEqual(look())
  })
})
