import './term-timeline.css'
import { useNow } from '../clock.js'
import { formatDuration, formatMoment } from '../format.js'
import { markOf } from '../marks.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { State, type Tone } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Age, None, When } from '../parts/time.js'
import type { ViewData } from '../wire.js'

type Term = ViewData<'terms'>[number]

/** What each end means to people, and how bad it is. */
const endings: Readonly<Record<NonNullable<Term['why']>, readonly [words: string, tone: Tone]>> = {
  released: ['released', 'quiet'],
  'release-requested': ['released when asked', 'quiet'],
  drained: ['drained', 'quiet'],
  closed: ['instance closed', 'quiet'],
  'stepped-down': ['stepped down', 'quiet'],
  replaced: ['replaced by a preferred one', 'quiet'],
  'not-eligible': ['no longer eligible', 'quiet'],
  'session-ended': ['session ended by somebody', 'warn'],
  revoked: ['taken by an operator', 'warn'],
  restarted: ['server restarted', 'warn'],
  expired: ['expired', 'bad'],
  lost: ['lost', 'bad'],
  gone: ['instance gone', 'bad'],
}

interface TermTimelineProps {
  /** The latest first, and at least one. */
  readonly terms: readonly Term[]
}

/** The terms of a name along time, each with its fence, on the colour of the instance that had it. */
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
          const { letter, colour } = markOf(term.instance)
          return (
            <li
              key={term.fence}
              class={`term-timeline-term mark-${colour}`}
              data-tone={term.why ? endings[term.why][1] : undefined}
              title={termText(term)}
              style={{ insetInlineStart: percent(begin - from), inlineSize: percent(end - begin) }}
            >
              <span aria-hidden="true">
                {letter} {term.fence}
              </span>
              <span class="visually-hidden">{termText(term)}</span>
            </li>
          )
        })}
      </ol>
      <div class="term-timeline-axis small muted" aria-hidden="true">
        <span>{formatMoment(from, to)}</span>
        <span>now</span>
      </div>
    </div>
  )
}

/** The same as a table. */
export function TermTimelineTable({ terms }: TermTimelineProps) {
  return (
    <Table
      label="Terms"
      rows={terms}
      keyOf={({ fence }) => String(fence)}
      columns={[
        { title: 'Fence', cell: ({ fence }) => <span class="mono">{fence}</span>, sort: ({ fence }) => fence },
        { title: 'Who', cell: (term) => <OwnerMark owner={term} />, wide: true },
        { title: 'From', cell: ({ beganAt }) => <When at={beganAt} />, sort: ({ beganAt }) => beganAt },
        {
          title: 'Lasted',
          cell: ({ lastedMs }) => <Age ms={lastedMs} />,
          sort: ({ lastedMs }) => lastedMs,
          align: 'end',
        },
        {
          title: 'Ended',
          cell: ({ why }) => (why ? <State word={endings[why][0]} tone={endings[why][1]} /> : <None text="it lasts" />),
          sort: ({ why }) => why,
        },
      ]}
      empty={null}
    />
  )
}

function termText({ fence, host, osPid, instance, lastedMs, why }: Term): string {
  const who = host === null ? `instance ${instance}` : `${host}/${osPid ?? '?'}`
  const end = why === null ? 'and lasts' : `then ${endings[why][0]}`
  return `Fence ${fence}: ${who} for ${formatDuration(lastedMs)}, ${end}`
}
