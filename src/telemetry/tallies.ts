import { buckets } from './buckets.js'
import { family, nameOf, sample } from './exposition.js'
import { type Attributes, type InstrumentName, instruments, type Measure } from './instruments.js'

interface Tally {
  readonly attributes: Attributes
  sum: number
  count: number
  /** How many measurements were at most as large as each bucket, and no smaller bucket took them. */
  readonly inBuckets: number[]
}

/** What was measured in this process so far, summed up for Prometheus. */
export class Tallies {
  readonly #tallies = new Map<InstrumentName, Map<string, Tally>>()

  readonly measure: Measure = (name, value, attributes) => {
    const { kind } = instruments[name]
    const tally = this.#tallyOf(name, attributes)
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

  #tallyOf(name: InstrumentName, attributes: Attributes): Tally {
    let tallies = this.#tallies.get(name)
    if (tallies === undefined) {
      tallies = new Map()
      this.#tallies.set(name, tallies)
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
    const tallies = [...(this.#tallies.get(name)?.values() ?? [])]
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
  return `${nameOf(name)}${unit === 's' ? '_seconds' : ''}${kind === 'counter' ? '_total' : ''}`
}

function linesOf(name: string, { attributes, sum, count, inBuckets }: Tally): string[] {
  let upto = 0
  const lines = buckets.map((most, at) => {
    upto += inBuckets[at]!
    return sample(`${name}_bucket`, { ...attributes, le: String(most) }, upto)
  })
  return [
    ...lines,
    sample(`${name}_bucket`, { ...attributes, le: '+Inf' }, count),
    sample(`${name}_sum`, attributes, sum),
    sample(`${name}_count`, attributes, count),
  ]
}
