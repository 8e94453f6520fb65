// Checks that the reference pages list exactly the events, metrics and spans of the code.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { eventNames } from '../../src/base/index.js'
import { buckets } from '../../src/telemetry/buckets.js'
import { fleetGauges, instanceGauges } from '../../src/telemetry/gauges.js'
import { type Instrument, type InstrumentName, instruments } from '../../src/telemetry/instruments.js'
import { prometheusName } from '../../src/telemetry/metric-totals.js'
import { spanDefinitions } from '../../src/telemetry/spans.js'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

/** Returns the cells of each table row under a heading, without table heads and rulers. */
function rows(text: string, heading = ''): string[][] {
  const part = text.slice(text.indexOf(heading)).split(/\n## /)
  const tables = heading === '' ? text : part[0]!
  return [...tables.matchAll(/^\| (`.*) \|$/gm)].map(([, row]) => row!.split(/\s+\| /).map((cell) => cell.trim()))
}

const listed = (all: readonly string[]) => all.map((one) => `\`${one}\``).join(', ')

/** Reads the events from the source: name, properties and comment. */
function eventsOfSource(): string[][] {
  const source = read('src/base/events.ts')
  const shared = new Map(
    [...source.matchAll(/^export interface (\w+Facts) \{\n([^}]*)\}/gm)].map(([, name, body]) => [
      name!,
      properties(body!),
    ]),
  )
  const body = source.slice(source.indexOf('export interface HoldfastEvents'), source.indexOf('interface LockFacts'))
  return [...body.matchAll(/\/\*\* (.*?) \*\/\n {2}'([a-z.-]+)': (.*?)(?=\n\n|\n {2}\/\*\*|\n\}\n)/gs)].map(
    ([, comment, name, type]) => {
      const fields = [...(shared.get(type!.split(' ')[0]!) ?? []), ...properties(type!)]
      return [`\`${name}\``, listed(fields) || 'nothing', comment!.replaceAll(/\s*\n\s*\*\s*/g, ' ')]
    },
  )
}

function properties(text: string): string[] {
  return [...text.matchAll(/readonly (\w+):/g)].map(([, name]) => name!)
}

test('docs/reference/events.md lists every event with its properties and its meaning', () => {
  const source = eventsOfSource()
  expect(source.map(([name]) => name).sort()).toEqual(eventNames.map((name) => `\`${name}\``).sort())
  expect(rows(read('docs/reference/events.md'))).toEqual(source)
})

const metrics = read('docs/reference/metrics.md')

test('docs/reference/metrics.md lists every metric', () => {
  const known = Object.entries<Instrument>(instruments).map(([name, { kind, unit, description, attributes }]) => {
    const prometheus = prometheusName(name as InstrumentName)
    return [`\`${name}\``, `\`${prometheus}\``, kind, `\`${unit}\``, description, listed(attributes) || 'none']
  })
  expect(rows(metrics, '## Instance metrics')).toEqual(known)
  expect(metrics).toContain(`\n${buckets.join(', ')} (seconds)`)
})

test.each([
  ['## Instance gauges', instanceGauges],
  ['## Fleet gauges', fleetGauges],
])('docs/reference/metrics.md lists every gauge under %s', (heading, gauges) => {
  const known = Object.entries(gauges).map(([name, { unit, description, labels }]) => [
    `\`${name}\``,
    `\`${unit}\``,
    description,
    listed(labels) || 'none',
  ])
  expect(rows(metrics, heading)).toEqual(known)
})

test('docs/reference/metrics.md lists every span', () => {
  const values = { name: '<name>', queue: '<queue>' }
  const known = Object.values(spanDefinitions).map(({ kind, attributes, name }) => [
    `\`${(name as (given: typeof values) => string)(values)}\``,
    kind,
    listed(attributes),
  ])
  expect(rows(metrics, '## Spans').map(([name, kind, , attributes]) => [name, kind, attributes])).toEqual(known)
})
