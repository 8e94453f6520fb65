import './term-timeline.css'
import { useNow } from '../clock.js'
import { formatDuration, formatMoment } from '../format.js'
import { markOf } from '../marks.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { State, type Tone } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { None } from '../parts/time.js'
import type { ViewData } from '../wire.js'

type Term = ViewData<'terms'>[number]

/** Label and tone of each reason for the end of a term. */
const endings: Readonly<Record<NonNullable<Term['why']>, readonly [words: string, tone: Tone]>> = {
  released: ['released', 'quiet'],
  'release-requested': ['released on request', 'quiet'],
  drained: ['drained', 'quiet'],
  closed: ['instance closed', 'quiet'],
  'stepped-down': ['stepped down', 'quiet'],
  replaced: ['replaced by a preferred instance', 'quiet'],
  'not-eligible': ['no longer eligible', 'quiet'],
  'session-ended': ['session terminated', 'warn'],
  revoked: ['revoked by an operator', 'warn'],
  restarted: ['server restarted', 'warn'],
  expired: ['expired', 'bad'],
  lost: ['lost', 'bad'],
  gone: ['instance lost', 'bad'],
}

interface TermTimelineProps {
  /** At least one term. The latest term comes first. */
  readonly terms: readonly Term[]
}

/** Timeline of a name's terms. Each term shows its fencing token, and has the colour of its instance. */
export function TermTimeline({ terms }: TermTimelineProps) {
  const now = useNow()
  const inOrder = terms.toReversed()
  const from = Date.parse(inOrder[0]!.beganAt)
  const to = Math.max(now, from + 1_000)
  const percent = (ms: number) => `${(Math.max(0, ms) / (to - from)) * 100}%`
  return (
    <div class="term-timeline">
      <ol>
        {inOrder.map((term) => {
          const begin = Date.parse(term.beganAt)
          const end = term.endedAt ? Date.parse(term.endedAt) : to
          const { letter, style } = markOf(term.instance, term.instanceName)
          return (
            <li
              key={term.fence}
              class={`term-timeline-term ${term.why ? endings[term.why][1] : ''}`}
              title={termText(term)}
              style={{ ...style, insetInlineStart: percent(begin - from), inlineSize: percent(end - begin) }}
            >
              <span aria-hidden="true">
                {letter} {term.fence}
              </span>
              <span class="visually-hidden">{termText(term)}</span>
            </li>
          )
        })}
      </ol>
      <div class="term-timeline-axis between small muted" aria-hidden="true">
        <span>{formatMoment(from, to)}</span>
        <span>now</span>
      </div>
    </div>
  )
}

export function TermTimelineTable({ terms }: TermTimelineProps) {
  return (
    <Table
      label="Previous holders"
      rows={terms}
      keyOf={({ fence }) => String(fence)}
      columns={[
        { title: 'Fence', cell: ({ fence }) => <span class="mono">{fence}</span>, sort: ({ fence }) => fence },
        { title: 'Instance', cell: (term) => <OwnerMark owner={term} />, wide: true },
        { title: 'From', time: ({ beganAt }) => beganAt },
        { title: 'Duration', age: ({ lastedMs }) => lastedMs },
        {
          title: 'Ended',
          cell: ({ why }) =>
            why ? <State word={endings[why][0]} tone={endings[why][1]} /> : <None text="not ended" />,
          sort: ({ why }) => why,
        },
      ]}
      empty={null}
    />
  )
}

function termText({ fence, instance, instanceName, lastedMs, why }: Term): string {
  const holder = instanceName ?? `instance ${instance}`
  const end = why === null ? 'not ended' : `then ${endings[why][0]}`
  return `Fence ${fence}: held by ${holder} for ${formatDuration(lastedMs)}, ${end}`
}
