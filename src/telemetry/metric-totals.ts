import { buckets } from './buckets.js'
import { family, prometheusLabel, sample } from './exposition.js'
import { type Attributes, type InstrumentName, instruments, type Measure } from './instruments.js'

interface MetricSeries {
  readonly attributes: Attributes
  sum: number
  count: number
  /** Number of measurements in each bucket. Each measurement is counted only in the smallest bucket that fits. */
  readonly inBuckets: number[]
}

/** This process's measurement totals, for Prometheus. */
export class MetricTotals {
  readonly #series = new Map<InstrumentName, Map<string, MetricSeries>>()

  readonly measure: Measure = (name, value, attributes) => {
    const { kind } = instruments[name]
    const one = this.#seriesOf(name, attributes)
    one.sum += value
    one.count++
    if (kind === 'counter') return
    let at = 0
    while (at < buckets.length && value > buckets[at]!) at++
    if (at < buckets.length) one.inBuckets[at]!++
  }

  /** Returns the metrics that have measurements. */
  text(): string {
    return (Object.keys(instruments) as InstrumentName[]).map((name) => this.#familyOf(name)).join('')
  }

  #seriesOf(name: InstrumentName, attributes: Attributes): MetricSeries {
    const all = this.#series.get(name) ?? new Map<string, MetricSeries>()
    this.#series.set(name, all)
    const key = Object.values(attributes).join('\0')
    let series = all.get(key)
    if (series === undefined) {
      series = { attributes, sum: 0, count: 0, inBuckets: buckets.map(() => 0) }
      all.set(key, series)
    }
    return series
  }

  #familyOf(name: InstrumentName): string {
    const { kind, description } = instruments[name]
    const series = [...(this.#series.get(name)?.values() ?? [])]
    const prometheus = prometheusName(name)
    const lines = series.flatMap((one) =>
      kind === 'counter' ? [sample(prometheus, one.attributes, one.sum)] : linesOf(prometheus, one),
    )
    return family(prometheus, kind, description, lines)
  }
}

/** Converts the name according to the OpenTelemetry rules. Adds a suffix for the unit, and a suffix for counters. */
export function prometheusName(name: InstrumentName): string {
  const { kind, unit } = instruments[name]
  return `${prometheusLabel(name)}${unit === 's' ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`
}

function linesOf(name: string, { attributes, sum, count, inBuckets }: MetricSeries): string[] {
  let cumulative = 0
  const lines = buckets.map((bound, at) => {
    cumulative += inBuckets[at]!
    return sample(`${name}_bucket`, { ...attributes, le: String(bound) }, cumulative)
  })
  return [
    ...lines,
    sample(`${name}_bucket`, { ...attributes, le: '+Inf' }, count),
    sample(`${name}_sum`, attributes, sum),
    sample(`${name}_count`, attributes, count),
  ]
}
