import { useRef, useState } from 'preact/hooks'
import { now } from '../../clock.js'
import { formatDuration, formatNumber, shorten, visible } from '../../format.js'
import { TickTimeline } from '../../graphics/tick-timeline.js'
import { clockChangeText, reasonTexts } from '../../graphics/tick-timeline-text.js'
import { type LiveView, useView } from '../../live.js'
import { Act, PauseOrResume } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Log } from '../../parts/log.js'
import { Name } from '../../parts/name.js'
import { Empty, Panel } from '../../parts/panel.js'
import { State } from '../../parts/state.js'
import { TablePanel } from '../../parts/table.js'
import { Age, None, Until, When } from '../../parts/time.js'
import { setParams } from '../../routes.js'
import { useWidth } from '../../use-size.js'
import type { ViewData } from '../../wire.js'
import { zoneLabel } from '../../zone.js'
import { Enqueue } from '../jobs/enqueue.js'
import { ScheduleStates } from './cells.js'
import { stepsOf, TicksTable, useMinutes } from './ticks.js'

type Details = NonNullable<ViewData<'schedule'>>
type Run = Details['runs'][number]

/** A run, or a gap, which consists of ticks without a run. */
interface PastRow {
  readonly at: string
  readonly run?: Run
  readonly gap?: Details['gaps'][number]
}

const maxPast = 25

interface ScheduleId {
  readonly namespace: string
  readonly name: string
}

export function OneSchedule({ namespace, name }: ScheduleId) {
  const live = useView('schedule', { namespace, name })
  const details = live.data
  return (
    <Dialog
      kind="side"
      title={`Schedule ${shorten(name, 60)}`}
      onClose={() => setParams({ schedule: undefined, of: undefined })}
    >
      <div class="side-by-side">
        <Panel
          title="Now"
          live={live}
          tools={
            details && (
              <>
                <Act act="run-schedule" params={{ namespace, name }} label="Run now" subject={name} />
                {details.job && (
                  <Enqueue
                    label="Run with an input"
                    schedule={name}
                    given={{ namespace, ...details.job, input: '{}' }}
                  />
                )}
                <PauseOrResume
                  of="schedule"
                  isPaused={details.pausedAt !== null}
                  params={{ namespace, name }}
                  subject={name}
                />
                {details.overridden && (
                  <Act act="override-schedule" params={{ namespace, name }} label="Clear override" subject={name} />
                )}
              </>
            )
          }
        >
          {details === null && <Empty title="This schedule no longer exists." />}
          {details && <About details={details} namespace={namespace} name={name} />}
        </Panel>
        {details && <UpcomingTable live={live} details={details} />}
      </div>
      {details && <Line namespace={namespace} name={name} keyOfIt={details.key} />}
      {details && <History live={live} details={details} namespace={namespace} name={name} />}
    </Dialog>
  )
}

const overlaps = {
  skip: 'skip the tick',
  queue: 'let at most one tick wait',
  allow: 'run at the same time',
  replace: 'stop the previous run',
}

interface DetailsProps {
  readonly live: LiveView<unknown>
  readonly details: Details
}

function About({ details, namespace, name }: ScheduleId & { readonly details: Details }) {
  const { rule, codeRule, overridden, timezone, pausedAt, nextAt, overlap, missed, catchUp, reruns } = details
  const { members, rules, clockChange, stored, job } = details
  const isOrphan = members.length === 0 && !stored
  return (
    <Facts
      facts={[
        ['Name', <Name key="name" text={name} maxLength={200} copy />],
        ['Namespace', <bdi key="namespace">{visible(namespace)}</bdi>],
        [
          'State',
          <span key="state" class="row">
            <ScheduleStates
              states={[pausedAt && 'paused', isOrphan && 'orphan', overridden && 'overridden', stored && 'stored']}
            />
            {pausedAt && (
              <span class="muted">
                since <When at={pausedAt} />
                {details.unrecordedTicks > 0 && `, ${formatNumber(details.unrecordedTicks)} ticks skipped`}
              </span>
            )}
            {isOrphan && <span class="muted">no live instance has this schedule in its code</span>}
          </span>,
        ],
        ['Rule', <bdi key="rule">{rule}</bdi>],
        stored && job && ['Job', <bdi key="job">{visible(`${job.kind} in the queue ${job.queue}`)}</bdi>],
        overridden && ['Rule in the code', <bdi key="code">{codeRule}</bdi>],
        timezone !== null && ['Time zone', timezone],
        clockChange && [
          'Clock change',
          <span key="clocks">
            {clockChangeText(clockChange, null)}, on <When at={clockChange.at} />
          </span>,
        ],
        details.job && [
          'Job',
          <span key="job">
            <Name text={details.job.kind} /> in the queue <Name text={details.job.queue} />
          </span>,
        ],
        nextAt !== null && ['Next run', <Until key="next" at={nextAt} />],
        ['If still running', overlaps[overlap]],
        [
          'Missed ticks',
          missed === 'skip'
            ? 'skip'
            : missed === 'latest'
              ? 'run the most recent missed tick now, even though it is late'
              : `catch up on up to ${catchUp} missed ticks`,
        ],
        ['If the instance dies', reruns ? 'run again on another instance' : 'record the run as broken'],
        [
          `Instances (${members.length})`,
          <span key="members" class="row">
            {members.length === 0 && <None />}
            {members.slice(0, 24).map((member) => (
              <span key={member.instance}>
                <OwnerMark owner={member} />
                {member.rule !== codeRule && <span class="muted"> with {member.rule}</span>}
              </span>
            ))}
            {members.length > 24 && <span class="muted">and {members.length - 24} more</span>}
          </span>,
        ],
        rules.length > 1 && [
          'Previous rules',
          <span key="rules">
            {rules.slice(1).map(({ since, rule }) => (
              <span key={since} class="muted">
                <bdi>{rule}</bdi> since <When at={since} />{' '}
              </span>
            ))}
          </span>,
        ],
      ]}
    />
  )
}

/** One schedule's tick timeline. */
function Line({ namespace, name, keyOfIt }: ScheduleId & { readonly keyOfIt: string }) {
  const { minutes, choose } = useMinutes()
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const timeline = useView('tick-timeline', { namespace, name, minutes, steps: stepsOf(width, false) })
  const { data } = timeline
  return (
    <div ref={box}>
      <Panel title="Ticks" live={timeline} tools={choose} table={data && <TicksTable data={data} />}>
        {data && <TickTimeline key={keyOfIt} data={data} />}
      </Panel>
    </div>
  )
}

function History({ live, details, namespace, name }: ScheduleId & DetailsProps) {
  const [opened, setOpened] = useState<string>()
  const past: PastRow[] = [
    ...details.runs.map((run) => ({ at: run.tick, run })),
    ...details.gaps.map((gap) => ({ at: gap.first, gap })),
  ]
  const rows = past.sort((a, b) => Date.parse(b.at) - Date.parse(a.at)).slice(0, maxPast)
  const run = details.runs.find((one) => keyOf({ at: one.tick, run: one }) === opened)
  return (
    <TablePanel
      title="Run history"
      label="Runs and gaps"
      live={live}
      rows={rows}
      keyOf={keyOf}
      opened={opened}
      onOpen={(row) => setOpened(keyOf(row) === opened ? undefined : keyOf(row))}
      columns={[
        {
          title: 'Tick',
          cell: ({ at, run }) => (
            <span class="row">
              <When at={at} />
              {run?.extra && <span class="muted">manual run</span>}
            </span>
          ),
          sort: ({ at }) => Date.parse(at),
        },
        {
          title: 'Outcome',
          cell: ({ run, gap }) => (
            <>
              {run && <Outcome run={run} />}
              {gap && (
                <span title={reasonTexts[gap.reason].text}>
                  {formatNumber(gap.ticks)} without a run: {gap.reason}
                </span>
              )}
            </>
          ),
          wide: true,
        },
        { title: 'Instance', cell: ({ run }) => <OwnerMark owner={run?.instance ? run : null} link={false} /> },
        { title: 'Attempt', cell: ({ run }) => run?.attempt || <None />, align: 'end', spare: 2 },
        { title: 'Log', cell: ({ run }) => run?.lines || <None />, align: 'end', spare: 1 },
        { title: 'Delay', cell: ({ run }) => <Age ms={run?.lateMs} />, align: 'end', spare: 2 },
        { title: 'Duration', cell: ({ run }) => (run ? <RunDuration run={run} /> : <None />), align: 'end' },
      ]}
      empty={<p class="muted small tick-timeline-empty">No runs yet. The first tick is in the future.</p>}
    >
      {run && <RunLog key={opened} namespace={namespace} name={name} run={run} />}
    </TablePanel>
  )
}

function Outcome({ run: { state, error, stopping, crashes } }: { readonly run: Run }) {
  return (
    <span class="row">
      <State word={state} />
      {error && (
        <span class="small">
          <Name text={error} maxLength={80} />
        </span>
      )}
      {stopping && <span class="muted small">stop requested: {stopping}</span>}
      {crashes > 0 && (
        <span class="muted small">{crashes === 1 ? 'one instance died' : `${crashes} instances died`}</span>
      )}
    </span>
  )
}

function RunDuration({ run: { startedAt, endedAt } }: { readonly run: Run }) {
  if (!startedAt) return <None text="not started" />
  if (!endedAt) return <span class="muted">since {<When at={startedAt} />}</span>
  return <span>{formatDuration(Date.parse(endedAt) - Date.parse(startedAt))}</span>
}

function RunLog({ namespace, name, run }: ScheduleId & { readonly run: Run }) {
  const { data, failure } = useView('schedule-run', { namespace, name, tick: run.tick, extra: run.extra })
  return (
    <section class="run-log small" aria-label="Selected run">
      <p>
        Tick <When at={run.tick} />
        {run.fence && <span class="muted">, fence {run.fence}</span>}
      </p>
      {data === undefined && <p class="muted">{failure?.message ?? 'Loading …'}</p>}
      {data === null && <p class="muted">The record of this run was deleted.</p>}
      {data?.error && <pre class="mono">{data.error.split('\n').map(visible).join('\n')}</pre>}
      {data && data.log.length > 0 && <Log lines={data.log} />}
      {data && data.log.length === 0 && !data.error && <p class="muted">This run has no log lines.</p>}
    </section>
  )
}

function UpcomingTable({ live, details: { upcoming, pausedAt, timezone } }: DetailsProps) {
  return (
    <TablePanel
      title="Next runs"
      live={live}
      rows={upcoming}
      keyOf={({ at }) => at}
      columns={[
        {
          title: timezone ?? 'UTC',
          cell: ({ time, offset }) => (
            <>
              {time} <span class="muted">{offset}</span>
            </>
          ),
          wide: true,
        },
        ...(timezone && timezone !== 'UTC'
          ? [{ title: zoneLabel(now()), cell: ({ at }: Details['upcoming'][number]) => <When at={at} /> }]
          : []),
        { title: 'In', cell: ({ at }) => <Until at={at} />, align: 'end' },
        { title: 'Clock change', cell: ({ note }) => (note ? <State word={note} tone="warn" /> : <None />) },
      ]}
      empty={
        <p class="muted small tick-timeline-empty">
          {pausedAt ? 'The schedule is paused.' : 'The rule has no more ticks.'}
        </p>
      }
    />
  )
}

function keyOf({ at, run }: PastRow): string {
  return run ? `${at} ${run.extra}` : `gap ${at}`
}
