import { useNow } from '../clock.js'
import { useView } from '../live.js'
import { namespaceColumns } from '../parts/columns.js'
import { Act, PauseOrResume } from '../parts/confirm.js'
import { Page } from '../parts/page.js'
import { Empty } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State } from '../parts/state.js'
import { Pager, TablePanel } from '../parts/table.js'
import { Elapsed, Until } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { LastRun, ScheduleStates } from './schedules/cells.js'
import { OneSchedule } from './schedules/one-schedule.js'
import { Ticks } from './schedules/ticks.js'

type Schedule = ViewData<'schedules'>['rows'][number]

const overdueAfterMs = 5_000

export function Schedules() {
  const { namespace, search, schedule, of, after } = useParams<'schedules'>()
  const schedules = useView('schedules', { namespace, search, after: after ? Number(after) : undefined })
  const { rows = [], count } = schedules.data ?? {}
  return (
    <Page tools={<Search subject="schedules" example="report" />}>
      {schedule && of && <OneSchedule key={`${of} ${schedule}`} namespace={of} name={schedule} />}
      {count !== 0 && !schedule && <Ticks />}
      <TablePanel
        title="Schedules"
        live={schedules}
        count={count}
        rows={rows}
        keyOf={({ key }) => key}
        opened={rows.find((row) => row.name === schedule && row.namespace === of)?.key}
        onOpen={(row) => setParams({ schedule: row.name, of: row.namespace }, 'push')}
        columns={[
          { title: 'Name', name: ({ name }) => name, wide: true },
          {
            title: 'State',
            cell: (row) => <ScheduleStates states={statesOf(row)} />,
            sort: (row) => statesOf(row).join(),
          },
          { title: 'Rule', name: ({ rule }) => rule, maxLength: 34 },
          {
            title: 'Next run',
            cell: ({ nextAt }) => <NextTick at={nextAt} />,
            sort: ({ nextAt }) => nextAt && Date.parse(nextAt),
            align: 'end',
          },
          { title: 'Last run', cell: ({ last }) => <LastRun last={last} />, sort: ({ last }) => last?.state },
          { title: 'Delay', age: ({ last }) => last?.lateMs, spare: 1 },
          { title: 'Duration', age: ({ last }) => last?.tookMs, spare: 1 },
          { title: 'Instances', number: ({ members }) => members, spare: 2 },
          ...namespaceColumns(rows, 2),
        ]}
        acts={({ namespace, name, pausedAt }) => (
          <span class="row facts-line">
            <Act act="run-schedule" params={{ namespace, name }} label="Run" subject={name} />
            <PauseOrResume of="schedule" isPaused={pausedAt !== null} params={{ namespace, name }} subject={name} />
          </span>
        )}
        empty={
          search ? (
            <Empty title="No schedule has this text in its name." />
          ) : (
            <Empty
              title="No schedules yet."
              code="holdfast.schedules.add('hourly-report', { cron: '0 * * * *' }, async ({ tick }) => { … })"
            >
              Every instance adds the same schedules when it starts. One instance runs each tick.
            </Empty>
          )
        }
      >
        <Pager next={schedules.data?.next} after={after} />
      </TablePanel>
    </Page>
  )
}

/** Unusual states, worded as in the output of `holdfast schedule ls`. */
function statesOf({ pausedAt, members, overridden, running, stored }: Schedule) {
  const isOrphan = members === 0 && !stored
  return [
    running > 0 && 'running',
    pausedAt && 'paused',
    isOrphan && 'orphan',
    overridden && 'overridden',
    stored && 'stored',
  ]
}

/** A tick is overdue if no instance has claimed it within 5 seconds. */
function NextTick({ at }: { readonly at: string | null }) {
  const time = useNow()
  if (at === null || time - Date.parse(at) < overdueAfterMs) return <Until at={at} />
  return (
    <span class="row facts-line">
      <State word="overdue" tone="warn" />
      <Elapsed at={at} />
    </span>
  )
}
