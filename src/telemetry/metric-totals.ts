import { buckets } from './buckets.js'
import { family, prometheusLabel, sample } from './exposition.js'
import { type Attributes, type InstrumentName, instruments, type Measure } from './instruments.js'

interface MetricSeries {
  readonly attributes: Attributes
  sum: number
  count: number
  /** How many measurements were at most as large as each bucket, and no smaller bucket took them. */
  readonly inBuckets: number[]
}

/** What was measured in this process so far, summed up for Prometheus. */
export class MetricTotals {
  readonly #series = new Map<InstrumentName, Map<string, MetricSeries>>()

  readonly measure: Measure = (name, value, attributes) => {
    const { kind } = instruments[name]
    const tally = this.#seriesOf(name, attributes)
    tally.sum += value
    tally.count++
    if (kind === 'counter') return
    let at = 0
    while (at < buckets.length && value > buckets[at]!) at++
    if (at < buckets.length) tally.inBuckets[at]!++
  }

  /** Those of which there is something to say. */
  text(): string {
    return (Object.keys(instruments) as InstrumentName[]).map((name) => this.#familyOf(name)).join('')
  }

  #seriesOf(name: InstrumentName, attributes: Attributes): MetricSeries {
    let tallies = this.#series.get(name)
    if (tallies === undefined) {
      tallies = new Map()
      this.#series.set(name, tallies)
    }
    const key = Object.values(attributes).join('\0')
    let tally = tallies.get(key)
    if (tally === undefined) {
      tally = { attributes, sum: 0, count: 0, inBuckets: buckets.map(() => 0) }
      tallies.set(key, tally)
    }
    return tally
  }

  #familyOf(name: InstrumentName): string {
    const { kind, description } = instruments[name]
    const tallies = [...(this.#series.get(name)?.values() ?? [])]
    const prometheus = prometheusName(name)
    const lines = tallies.flatMap((tally) =>
      kind === 'counter' ? [sample(prometheus, tally.attributes, tally.sum)] : linesOf(prometheus, tally),
    )
    return family(prometheus, kind, description, lines)
  }
}

/** By the rules of OpenTelemetry: the unit is spelt out, and a counter says that it is one. */
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
