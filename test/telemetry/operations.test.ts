// Checks that the Grafana dashboards and the Prometheus alert rules in deploy/ use only metrics, labels and outcomes that Holdfast emits.
// events.test.ts and metrics.test.ts check that real instances emit exactly these metrics and labels. These tests evaluate no expression.
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { buckets } from '../../src/telemetry/buckets.js'
import { prometheusLabel } from '../../src/telemetry/exposition.js'
import { fleetGauges, instanceGauges } from '../../src/telemetry/gauges.js'
import { type Instrument, type InstrumentName, instruments } from '../../src/telemetry/instruments.js'
import { prometheusName } from '../../src/telemetry/metric-totals.js'
import { anchorsOf } from '../documentation/anchors.js'
import { root } from '../documentation/lines.js'
import { readExpression } from './promql.js'

const { load } = createRequire(import.meta.url)('js-yaml') as { load: (text: string) => unknown }
const read = (file: string) => readFileSync(join(root, file), 'utf8')

/** Labels that Prometheus adds to every sample. */
const targetLabels = ['job', 'instance']

/** The labels of each series, by the name that expressions use. */
const labelsOf = new Map<string, readonly string[]>()
/** The metrics without the suffixes of histograms. */
const metrics: string[] = []
for (const [name, { labels }] of Object.entries({ ...instanceGauges, ...fleetGauges })) {
  labelsOf.set(name, [...targetLabels, ...labels])
  metrics.push(name)
}
for (const [name, { kind, attributes }] of Object.entries<Instrument>(instruments)) {
  const metric = prometheusName(name as InstrumentName)
  const labels = [...targetLabels, ...attributes.map(prometheusLabel)]
  metrics.push(metric)
  if (kind === 'counter') labelsOf.set(metric, labels)
  else {
    for (const suffix of ['_sum', '_count']) labelsOf.set(metric + suffix, labels)
    labelsOf.set(`${metric}_bucket`, [...labels, 'le'])
  }
}

/** The outcomes of each metric, as the tests of the reference pages know them. */
const outcomes = new Set(
  [...read('docs/reference/metrics.md').matchAll(/^\| [a-z][a-z ,]* \| ((?:`[a-z-]+`(?:, )?)+) \|$/gm)].flatMap(
    ([, values]) => values!.split(', ').map((value) => value.slice(1, -1)),
  ),
)

/** Returns what is wrong with an expression. */
function problemsOf(text: string): string[] {
  const { selectors, groupings } = readExpression(text)
  const uses = [
    ...selectors.flatMap(({ metric, matchers }) => matchers.map(({ label }) => [metric, label] as const)),
    ...groupings.flatMap(({ labels, metrics }) =>
      labels.flatMap((label) => metrics.map((metric) => [metric, label] as const)),
    ),
  ]
  const unknown = selectors.filter(({ metric }) => !labelsOf.has(metric)).map(({ metric }) => `no metric ${metric}`)
  const unlabelled = uses.filter(([metric, label]) => labelsOf.has(metric) && !labelsOf.get(metric)!.includes(label))
  const valuesOf = (label: string) =>
    selectors
      .flatMap(({ matchers }) => matchers)
      .filter((matcher) => matcher.label === label)
      .flatMap(({ value }) => value.split('|'))
  const [values, bounds] = [valuesOf('holdfast_outcome'), valuesOf('le')]
  return [
    ...unknown,
    ...unlabelled.map(([metric, label]) => `no label ${label} of ${metric}`),
    ...values.filter((value) => !outcomes.has(value)).map((value) => `no outcome ${value}`),
    ...bounds.filter((bound) => !buckets.map(String).includes(bound)).map((bound) => `no bound ${bound}`),
  ]
}

interface Dashboard {
  readonly uid: string
  readonly panels: readonly {
    readonly title: string
    readonly description?: string
    readonly type: string
    readonly targets?: readonly { readonly expr: string }[]
  }[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] }
}

const dashboards = readdirSync(join(root, 'deploy/grafana')).map(
  (file) => [file, JSON.parse(read(`deploy/grafana/${file}`)) as Dashboard] as const,
)

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook: string }
}

const { groups } = load(read('deploy/prometheus/alerts.yml')) as {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[]
}
const rules = groups.flatMap((group) => group.rules)

test.each([
  ['sum by (queue) (rate(holdfast_nothing[5m]))', ['no metric holdfast_nothing']],
  ['max(holdfast_queue_ready{queues="mail"})', ['no label queues of holdfast_queue_ready']],
  ['sum by (job, schedule) (holdfast_queue_ready)', ['no label schedule of holdfast_queue_ready']],
  [
    'max by (job, queue) (holdfast_queue_ready) > 0 and on (job, version) max by (job) (holdfast_instances) > 0',
    ['no label version of holdfast_queue_ready'],
  ],
  ['holdfast_once_answers_total{holdfast_outcome=~"done|gone"}', ['no outcome gone']],
  ['rate(holdfast_lock_wait_duration_seconds_bucket{le="31"}[5m])', ['no bound 31']],
  ['sum(rate(holdfast_lock_wait_duration_seconds[5m]))', ['no metric holdfast_lock_wait_duration_seconds']],
])('problemsOf finds the mistake in %s', (expression, problems) => {
  expect(problemsOf(expression)).toEqual(problems)
})

test('readExpression refuses unknown functions and unbalanced parentheses', () => {
  expect(() => readExpression('irate(holdfast_instances[5m])')).toThrow('Unknown function irate')
  expect(() => readExpression('max(holdfast_instances')).toThrow('got the end')
  expect(() => readExpression('max(holdfast_instances))')).toThrow('Unexpected )')
})

test.each(dashboards)(
  '%s queries only metrics, labels and outcomes that exist',
  (file, { uid, panels, templating }) => {
    expect(`${uid}.json`).toBe(file)
    const variables = new Set(templating.list.map(({ name }) => name))
    for (const { definition } of templating.list) {
      if (definition === undefined) continue
      const [, metric, label] = /^label_values\((\w+)(?:\{job=~"\$job"\})?, (\w+)\)$/.exec(definition) ?? []
      expect(labelsOf.get(metric!), definition).toContain(label)
    }
    for (const { type, title, description, targets = [] } of panels) {
      if (type !== 'row') expect({ title, description, queries: targets.length > 0 }).toMatchObject({ queries: true })
      for (const { expr } of targets) {
        expect(problemsOf(expr), `${title}: ${expr}`).toEqual([])
        // Without this matcher, a panel would mix the namespaces of several scrape jobs.
        for (const { matchers } of readExpression(expr).selectors) {
          expect(matchers, expr).toContainEqual({ label: 'job', operator: '=~', value: '$job' })
        }
        for (const [, name] of expr.matchAll(/\$(?!__rate_interval)(\w+)/g)) expect(variables, expr).toContain(name)
      }
    }
  },
)

test('every metric has a panel', () => {
  const queries = dashboards.flatMap(([, { panels }]) =>
    panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  )
  const shown = new Set(
    queries
      .flatMap((expr) => readExpression(expr).selectors)
      .map(({ metric }) => metric.replace(/_seconds_(bucket|count|sum)$/, '_seconds')),
  )
  expect(metrics.filter((metric) => !shown.has(metric))).toEqual([])
})

test.each(rules.map((rule) => [rule.alert, rule] as const))(
  'the alert %s uses only metrics and labels that exist, and has a runbook',
  (_, { expr, labels, annotations: { summary, runbook } }) => {
    expect(problemsOf(expr)).toEqual([])
    expect(['critical', 'warning', 'info']).toContain(labels.severity)
    expect(summary).toMatch(/^[A-Z].*\.$/)
    const { selectors, groupings } = readExpression(expr)
    const kept = [...groupings.flatMap(({ labels }) => labels), ...(groupings.length === 0 ? ['instance'] : [])]
    for (const [, label] of summary.matchAll(/\{\{ \$labels\.(\w+) \}\}/g)) expect(kept, summary).toContain(label)
    expect(selectors.length).toBeGreaterThan(0)
    const [page, anchor] = runbook.split('#')
    expect(page).toBe('docs/operating/runbooks.md')
    expect(anchorsOf(join(root, page!))).toContain(anchor)
  },
)

test('the names of the alerts and of the groups are unique', () => {
  for (const names of [rules.map(({ alert }) => alert), groups.map(({ name }) => name)]) {
    expect(new Set(names).size).toBe(names.length)
  }
})
