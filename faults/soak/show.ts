// The soak test's report, as Markdown tables.
import type { Counts } from './member.ts'
import type { Samples } from './samples.ts'
import { days, week, weekMs } from './week.ts'

interface Week {
  series: ReturnType<Samples['checkSeries']>
  sequences: ReturnType<Samples['checkSequences']>
  all: Counts & { replaced: number }
  left: number
  runMs: number
}

/** Prints the report. Returns true if nothing grows and all kinds of work were done. */
export function printReport({ series, sequences, all, left, runMs }: Week) {
  const idle = expected.filter((what) => !all.done[what])
  print(`# A week in ${runMs / 60_000} minutes\n`)
  print(
    table(['operation', 'completed', 'share of the planned work', 'rejected during faults'], operations(all, runMs)),
  )
  print(`\n${all.replaced} instances were replaced. ${left} jobs were waiting or running at the end.\n`)
  const listed = series
    .filter(({ name, last, isOk }) => !isOk || !isSmall(name, last))
    .sort((a, b) => Number(a.isOk) - Number(b.isOk))
  print(
    table(
      ['series', 'day 3', `day ${days}`, 'per day', 'growth', 'limit', 'result'],
      listed.map(({ name, first, last, slope, gained, bound, unit, isOk }) => [
        name,
        amount(first, unit),
        amount(last, unit),
        amount(slope, unit),
        amount(gained, unit),
        amount(bound, unit),
        isOk ? 'flat' : 'GROWS',
      ]),
    ),
  )
  print(`\n${series.length - listed.length} more series are flat and small.\n`)
  print(
    table(
      ['sequence', 'used', 'years until it ends', 'result'],
      sequences.map(({ name, used, years, cycles, isOk }) => [
        name,
        amount(used),
        used === 0 ? 'unused' : `${amount(years)}${cycles ? ', then starts again' : ''}`,
        isOk ? 'ok' : 'SHORT',
      ]),
    ),
  )
  const faults = [
    ...series.filter(({ isOk }) => !isOk).map(({ name }) => `${name}: grows`),
    ...sequences.filter(({ isOk }) => !isOk).map(({ name }) => `sequence ${name}: runs out`),
    ...idle.map((what) => `${what}: this operation was never completed, so the result means nothing`),
  ]
  print(faults.length === 0 ? '\nAll flat.' : `\n${faults.map((fault) => `- ${fault}`).join('\n')}`)
  return faults.length === 0
}

const print = (text: string) => console.log(text)

/** Operations that a valid run has completed at least once. */
const expected = [
  'locks',
  'leases',
  'permits',
  'rates',
  'deliveries',
  'rounds',
  'ticks',
  'terms',
  'elections',
  'visits',
  'job mail',
  'job sync',
  'job invoice',
  'job flaky',
  'job index',
]

const perWeek: Record<string, number> = week

/** Lists the completed operations, without those of killed instances, and their share of the planned work. */
const operations = ({ done, refused }: Counts, runMs: number) =>
  [...new Set([...Object.keys(done), ...Object.keys(refused)])]
    .sort()
    .map((what) => [
      what,
      amount(done[what] ?? 0),
      perWeek[what] ? `${Math.round(((done[what] ?? 0) / perWeek[what]) * (weekMs / runMs) * 100)} %` : '',
      amount(refused[what] ?? 0),
    ])

const isSmall = (name: string, last: number) =>
  /^(bytes|indexes|rows) /.test(name) && last < (name.startsWith('rows') ? 100 : 131_072)

function amount(value: number, unit?: 'bytes') {
  if (unit !== 'bytes') return Number(value.toPrecision(3)).toLocaleString('en')
  return `${(value / 1_048_576).toFixed(2)} MB`
}

function table(head: string[], rows: string[][]) {
  const all = [head, head.map((_, at) => (at === 0 ? '---' : '--:')), ...rows]
  return all.map((row) => `| ${row.join(' | ')} |`).join('\n')
}
