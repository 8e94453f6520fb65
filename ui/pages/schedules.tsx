import { useNow } from '../clock.js'
import { useView } from '../live.js'
import { Act } from '../parts/confirm.js'
import { Empty } from '../parts/empty.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State } from '../parts/state.js'
import { type Column, Table } from '../parts/table.js'
import { Age, Ago, Elapsed, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { OneSchedule } from './schedules/one-schedule.js'
import { Ticks } from './schedules/ticks.js'

type Schedule = ViewData<'schedules'>['rows'][number]

const overdueAfterMs = 5_000

const inNamespace: Column<Schedule> = {
  title: 'Namespace',
  cell: ({ namespace }) => <Name text={namespace} maxLength={20} />,
  sort: ({ namespace }) => namespace,
  spare: 2,
}

/** When schedules tick, who has run what, and what has no run. */
export function Schedules() {
  const { namespace, search, schedule, of } = useParams<'schedules'>()
  const schedules = useView('schedules', { namespace, search })
  const { rows = [], count } = schedules.data ?? {}
  return (
    <Page tools={<Search subject="schedules" example="report" />}>
      {schedule && of && <OneSchedule key={`${of} ${schedule}`} namespace={of} name={schedule} />}
      {count !== 0 && !schedule && <Ticks />}
      <Panel title="Schedules" live={schedules} count={count} padded={false}>
        <Table
          label="Schedules"
          rows={rows}
          total={count}
          keyOf={({ key }) => key}
          opened={rows.find((row) => row.name === schedule && row.namespace === of)?.key}
          onOpen={(row) => setParams({ schedule: row.name, of: row.namespace }, 'push')}
          columns={[
            { title: 'Name', cell: ({ name }) => <Name text={name} />, sort: ({ name }) => name, wide: true },
            { title: 'State', cell: (row) => <States row={row} />, sort: (row) => statesOf(row).join() },
            { title: 'Rule', cell: ({ rule }) => <Name text={rule} maxLength={34} />, sort: ({ rule }) => rule },
            {
              title: 'Next tick',
              cell: ({ nextAt }) => <NextTick at={nextAt} />,
              sort: ({ nextAt }) => nextAt && Date.parse(nextAt),
              align: 'end',
            },
            { title: 'Last run', cell: ({ last }) => <LastRun last={last} />, sort: ({ last }) => last?.state },
            {
              title: 'Late',
              cell: ({ last }) => <Age ms={last?.late} />,
              sort: ({ last }) => last?.late,
              align: 'end',
              spare: 1,
            },
            {
              title: 'Took',
              cell: ({ last }) => <Age ms={last?.took} />,
              sort: ({ last }) => last?.took,
              align: 'end',
              spare: 1,
            },
            {
              title: 'Members',
              cell: ({ members }) => members,
              sort: ({ members }) => members,
              align: 'end',
              spare: 2,
            },
            ...(new Set(rows.map((row) => row.namespace)).size > 1 ? [inNamespace] : []),
          ]}
          acts={({ namespace, name, pausedAt }) => (
            <span class="row facts-line">
              <Act act="run-schedule" params={{ namespace, name }} label="Run" subject={name} />
              {pausedAt ? (
                <Act act="resume-schedule" params={{ namespace, name }} label="Resume" subject={name} />
              ) : (
                <Act act="pause-schedule" params={{ namespace, name }} label="Pause" subject={name} />
              )}
            </span>
          )}
          empty={
            search ? (
              <Empty title="No schedule has this in its name." />
            ) : (
              <Empty
                title="There is no schedule."
                code="holdfast.schedules.add('hourly-report', { cron: '0 * * * *' }, async ({ tick }) => { … })"
              >
                Every instance adds the same ones when it starts; each tick is run by one of them.
              </Empty>
            )
          }
        />
      </Panel>
    </Page>
  )
}

/** What is unusual about it, in the words of `holdfast schedule ls`. */
function statesOf({ pausedAt, members, overridden, running }: Schedule): string[] {
  const states = { running: running > 0, paused: pausedAt !== null, orphan: members === 0, overridden }
  return Object.entries(states).flatMap(([word, is]) => (is ? [word] : []))
}

function States({ row }: { readonly row: Schedule }) {
  const states = statesOf(row)
  if (states.length === 0) return <State word="ticks" tone="good" />
  return (
    <span class="row facts-line">
      {states.map((word) => (
        <State
          key={word}
          word={word}
          {...(word === 'orphan' && { tone: 'bad' })}
          {...(word === 'overridden' && { tone: 'warn' })}
        />
      ))}
    </span>
  )
}

/** One that nobody has taken for a while is overdue: nobody who could is there. */
function NextTick({ at }: { readonly at: string | null }) {
  const time = useNow()
  if (at === null || time - Date.parse(at) < overdueAfterMs) return <Ago at={at} />
  return (
    <span class="row facts-line">
      <State word="overdue" tone="warn" />
      <Elapsed at={at} />
    </span>
  )
}

function LastRun({ last }: { readonly last: Schedule['last'] }) {
  if (!last) return <None />
  return (
    <span class="row facts-line" title={`Tick ${last.tick}`}>
      <State word={last.state} />
      {last.instance && <InstanceMark id={last.instance} />}
    </span>
  )
}
