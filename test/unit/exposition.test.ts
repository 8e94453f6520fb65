// Tests the text that Holdfast writes for Prometheus, and the strict reader that other tests read this text with.
import { expect, test } from 'vitest'
import { family, sample } from '../../src/telemetry/exposition.js'
import { MetricTotals } from '../../src/telemetry/metric-totals.js'
import { readExposition } from '../telemetry/exposition.js'

test('the reader returns the labels, help and values that family wrote, also with special characters', () => {
  const value = 'a "quoted" \\ back\nslash {x="y"} ü'
  const text = family('one', 'gauge', 'Help\nin two lines', [
    sample('one', { of: value }, 1.5e-9),
    sample('one', {}, NaN),
  ])
  expect(readExposition(text).get('one')).toEqual({
    type: 'gauge',
    help: 'Help\\nin two lines',
    samples: [
      { name: 'one', labels: { of: value }, value: 1.5e-9 },
      { name: 'one', labels: {}, value: NaN },
    ],
  })
  expect(family('none', 'gauge', 'No samples', [])).toBe('')
})

test('a histogram counts each value in all larger buckets, and a counter adds its values', () => {
  const totals = new MetricTotals()
  for (const took of [0.001, 0.005, 0.006, 2, 1_000]) {
    totals.measure('holdfast.lease.wait.duration', took, { 'holdfast.outcome': 'acquired' })
  }
  totals.measure('holdfast.rate.refusals', 1, {})
  totals.measure('holdfast.rate.refusals', 2, {})
  const families = readExposition(totals.text())
  const { samples } = families.get('holdfast_lease_wait_duration_seconds')!
  const countBelow = (le: string) => samples.find(({ labels }) => labels.le === le)?.value
  expect([countBelow('0.005'), countBelow('0.01'), countBelow('2.5'), countBelow('300'), countBelow('+Inf')]).toEqual([
    2, 3, 4, 4, 5,
  ])
  expect(families.get('holdfast_rate_refusals_total')!.samples).toEqual([
    { name: 'holdfast_rate_refusals_total', labels: {}, value: 3 },
  ])
})

test.each([
  ['# TYPE a gauge\na 1\n', 'No help'],
  ['# HELP a b\n# TYPE a gauge\na 1', 'does not end'],
  ['# HELP a b\n# TYPE a gauge\na 1\na 2\n', 'Duplicate'],
  ['# HELP a b\n# TYPE a gauge\nb 1\n', 'wrong family'],
  ['# HELP a b\n# TYPE a counter\na 1\n', 'A counter'],
  ['# HELP a b\n# TYPE a gauge\na{x="1} 1\n', 'Cannot be parsed'],
  ['# HELP a b\n# TYPE a histogram\na_bucket{le="+Inf"} 2\na_sum 1\na_count 1\n', 'The count'],
])('the reader refuses %j', (text, message) => {
  expect(() => readExposition(text)).toThrow(message)
})
