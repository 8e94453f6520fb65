// The verdict: a table for each kind, in Markdown, so that it can stand in a document as it is.
import type { Counts } from './member.ts'
import type { Samples } from './samples.ts'
import { days, week, weekMs } from './week.ts'

interface Week {
  series: ReturnType<Samples['judged']>
  sequences: ReturnType<Samples['sequences']>
  all: Counts & { replaced: number }
  left: number
  runMs: number
}

/** Prints everything, and answers whether all of it is well. */
export function shown({ series, sequences, all, left, runMs }: Week) {
  const idle = expected.filter((what) => !all.done[what])
  say(`# A week in ${runMs / 60_000} minutes\n`)
  say(table(['what', 'done', 'of its week', 'refused in a trouble'], uses(all, runMs)))
  say(`\n${all.replaced} instances replaced. Jobs that wait or run at the end: ${left}.\n`)
  const told = series
    .filter(({ name, last, isOk }) => !isOk || !isSmall(name, last))
    .sort((a, b) => Number(a.isOk) - Number(b.isOk))
  say(
    table(
      ['series', 'day 3', `day ${days}`, 'a day', 'gained', 'bound', ''],
      told.map(({ name, first, last, slope, gained, bound, unit, isOk }) => [
        name,
        amount(first, unit),
        amount(last, unit),
        amount(slope, unit),
        amount(gained, unit),
        amount(bound, unit),
        isOk ? 'ok' : 'GROWS',
      ]),
    ),
  )
  say(`\n${series.length - told.length} more series are well and small.\n`)
  say(
    table(
      ['sequence', 'used', 'lasts, years', ''],
      sequences.map(({ name, used, years, cycles, isOk }) => [
        name,
        amount(used),
        used === 0 ? 'unused' : `${amount(years)}${cycles ? ', then begins anew' : ''}`,
        isOk ? 'ok' : 'SHORT',
      ]),
    ),
  )
  const faults = [
    ...series.filter(({ isOk }) => !isOk).map(({ name }) => `${name}: grows`),
    ...sequences.filter(({ isOk }) => !isOk).map(({ name }) => `sequence ${name}: runs out`),
    ...idle.map((what) => `${what}: was never done, so nothing is shown`),
  ]
  say(faults.length === 0 ? '\nAll flat.' : `\n${faults.map((fault) => `- ${fault}`).join('\n')}`)
  return faults.length === 0
}

const say = (text: string) => console.log(text)

/** What must have been done for the rest to mean anything. */
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
  'looks',
  'job mail',
  'job sync',
  'job invoice',
  'job flaky',
  'job index',
]

const perWeek: Record<string, number> = week

/** How much of what the week asks for in this time. What the killed ones did is not in it. */
const uses = ({ done, refused }: Counts, runMs: number) =>
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
