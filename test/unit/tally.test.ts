// Tests the counters that an instance keeps in memory. The tests pass the time to the tally, so that minutes need no waiting.
import { expect, test } from 'vitest'
import { Tally } from '../../src/samples/tally.js'

const lock = (key: string, fence: number, isLeadership = false) =>
  ({ key, fence, kind: 'lock', mode: 'exclusive', isLeadership }) as const

/** Makes a tally whose minutes begin at multiples of 60 s. */
function tally(): Tally {
  const counts = new Tally()
  counts.setClock(0, 0)
  return counts
}

const names = (minutes: ReturnType<Tally['removeMinutes']>) =>
  minutes.map(({ beganAt, endedAt, names }) => [beganAt, endedAt, names])

test('a hold and a wait that span the end of a minute count in both minutes', () => {
  const counts = tally()
  counts.termStarted(lock('1', 7), 50_000)
  counts.waitersChanged('1', 1, 55_000)
  counts.waitersChanged('1', 1, 58_000)
  counts.waitersChanged('1', -1, 61_000)
  counts.waitersChanged('1', -1, 62_000)
  expect(names(counts.removeMinutes(62_500))).toEqual([[50_000, 60_000, [{ key: '1', held: 100, waited: 70 }]]])
  counts.termEnded('1', 7, 'released', 63_000)
  expect(counts.removeMinutes(119_999)).toEqual([])
  expect(names(counts.removeMinutes(120_000))).toEqual([[60_000, 120_000, [{ key: '1', held: 30, waited: 30 }]]])
  expect(counts.termsToRecord(120_000)).toMatchObject([
    { key: '1', fence: 7, beganAt: 50_000, endedAt: 63_000, why: 'released' },
  ])
  expect(counts.isEmpty).toBe(true)
})

test('an empty tally continues with the minute of the next event', () => {
  const counts = tally()
  counts.termStarted(lock('1', 1), 10_000)
  counts.termEnded('1', 1, 'released', 11_000)
  expect(counts.removeMinutes(70_000)).toHaveLength(1)
  counts.termStarted(lock('1', 2), 86_400_000 + 30_000)
  expect(counts.endsAt).toBe(86_400_000 + 60_000)
})

test('concurrent readers in one process count as one hold', () => {
  const counts = tally()
  const reader = { key: '1', kind: 'lock', mode: 'shared', isLeadership: false } as const
  counts.termStarted({ ...reader, fence: 1 }, 0)
  counts.termStarted({ ...reader, fence: 1 }, 2_000)
  counts.termEnded('1', 1, 'released', 4_000)
  counts.termEnded('1', 1, 'released', 5_000)
  expect(counts.removeMinutes(60_000)[0]!.names).toEqual([{ key: '1', held: 50, waited: 0 }])
  expect(counts.termsToRecord(60_000)).toMatchObject([{ fence: 1, beganAt: 0, endedAt: 5_000 }])
})

test('a minute contains at most 1,000 names, those with waiters first, and no hold below its resolution', () => {
  const counts = tally()
  for (let name = 1; name <= 1_500; name++) counts.termStarted(lock(`${name}`, name), 0)
  counts.waitersChanged('1500', 1, 0)
  for (let name = 1; name <= 1_500; name++) counts.termEnded(`${name}`, name, 'released', name === 1 ? 20 : name)
  counts.waitersChanged('1500', -1, 1_000)
  const [minute] = counts.removeMinutes(60_000)
  expect(minute!.names).toHaveLength(1_000)
  expect(minute!.names[0]).toEqual({ key: '1500', held: 15, waited: 10 })
  expect(minute!.names.every(({ held }) => held >= 5)).toBe(true)
})

test('a tally counts a bounded number of names, and keeps those that are held', () => {
  const counts = tally()
  counts.termStarted(lock('held', 1), 0)
  for (let name = 2; name < 30_000; name++) {
    counts.termStarted(lock(`${name}`, name), name / 100)
    counts.termEnded(`${name}`, name, 'released', name / 100 + 1)
  }
  for (let name = 30_000; name < 50_000; name++) counts.termStarted(lock(`${name}`, name), 1_000)
  // This hold exceeded the bound at its start, so its end is not counted.
  counts.termEnded('49999', 49_999, 'released', 30_000)
  const [minute] = counts.removeMinutes(60_000)
  expect(minute!.names[0]).toEqual({ key: 'held', held: 600, waited: 0 })
  expect(counts.termsToRecord(60_000)).toHaveLength(100)
})

test('termsToRecord returns leaderships of any length and other terms of at least a second, once while open and once when ended', () => {
  const counts = tally()
  counts.termStarted(lock('led', 1, true), 0)
  counts.termStarted(lock('short', 2), 0)
  counts.termStarted(lock('open', 3), 0)
  counts.termEnded('led', 1, 'stepped-down', 10)
  counts.termEnded('short', 2, 'released', 900)
  const terms = counts.termsToRecord(60_000)
  expect(terms.map(({ key, why }) => [key, why])).toEqual([
    ['led', 'stepped-down'],
    ['open', undefined],
  ])
  expect(counts.termsToRecord(61_000)).toEqual([])
  // The terms could not be recorded.
  counts.markUnrecorded(terms)
  expect(counts.termsToRecord(62_000)).toEqual(terms)
  // More terms end than one call returns. The term that is open in the database comes first.
  for (let fence = 10; fence < 5_000; fence++) {
    counts.termStarted(lock(`${fence}`, fence), 70_000)
    counts.termEnded(`${fence}`, fence, 'released', 90_000)
  }
  counts.termEnded('open', 3, 'lost', 90_000)
  expect(counts.termsToRecord(120_000).slice(0, 1)).toMatchObject([{ key: 'open', why: 'lost' }])
  expect(counts.termsToRecord(120_000)).toEqual([])
})

test('a tally that is not read for minutes keeps only the latest minutes', () => {
  const counts = tally()
  counts.termStarted(lock('1', 1), 0)
  expect(counts.removeMinutes(300_000).map(({ endedAt }) => endedAt)).toEqual([240_000, 300_000])
})
