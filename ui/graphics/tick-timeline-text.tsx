// Texts about ticks: the line below the timeline, tooltips, and accessible names.
import { formatClock, formatDuration, formatNumber } from '../format.js'
import { InstanceMark } from '../parts/instance-mark.js'
import { Name } from '../parts/name.js'
import type { ViewData } from '../wire.js'

export type TickTimelineData = ViewData<'tick-timeline'>
export type TickTimelineRow = TickTimelineData['rows'][number]
export type TickTimelineCell = TickTimelineRow['cells'][number]
export type Reason = TickTimelineRow['bands'][number]['reason']

/** Icon and text for each reason why ticks have no run. */
export const reasonTexts: Readonly<Record<Reason, { readonly path: string; readonly text: string }>> = {
  paused: { path: 'M4 2.500v7M8 2.500v7', text: 'paused by an operator' },
  overlap: {
    path: 'M2 4.500h5.500V10H2zM4.500 4.500V2H10v5.500H7.500',
    text: 'overlap: the previous run was still active',
  },
  missed: {
    path: 'M6 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8M3.200 8.800l5.600-5.600',
    text: 'missed: no instance claimed the tick in time',
  },
  'no instance': { path: 'M2 3h8v6H2zM2 9l8-6M2 3l8 6', text: 'no instance with this schedule was alive' },
  limit: {
    path: 'M2 2.500h8M6 10V5M3.500 7.500L6 5l2.500 2.500',
    text: 'limit: too many ticks were missed to catch up on all of them',
  },
}

interface CellDetailsProps {
  readonly row: TickTimelineRow
  readonly cell: TickTimelineCell
  readonly data: TickTimelineData
}

export function CellDetails({ row, cell, data }: CellDetailsProps) {
  const winners = new Set(cell.runs.map(({ instance }) => instance))
  const others = row.members.filter(({ instance, since }) => since <= cell.last && !winners.has(instance))
  return (
    <>
      <b>
        <Name text={row.name} />
      </b>{' '}
      {cell.ticks === 1
        ? `tick ${formatTick(cell.at)}`
        : `${cell.isEstimate ? 'about ' : ''}${formatNumber(cell.ticks)} ticks, ${formatTick(cell.at)} to ${formatTick(cell.last)}`}
      {cell.runs.map(({ instance, state, n, extra }, at) => (
        <span key={`${instance} ${state} ${extra}`}>
          {at > 0 ? '; ' : ': '}
          {cell.ticks > 1 && `${formatNumber(n)} `}
          {extra && 'manual run, '}
          {state}
          {instance && (
            <>
              {' by '}
              <InstanceLabel id={instance} data={data} />
            </>
          )}
        </span>
      ))}
      {cell.gaps.map(({ reason, ticks }) => (
        <span key={reason}>
          ; {formatNumber(ticks)} without a run, {reasonTexts[reason].text}
        </span>
      ))}
      {cell.isEstimate && '; numbers per instance are estimated from a sample'}
      {cell.lateMs !== null && `. Delay ${formatDuration(cell.lateMs)}`}
      {cell.attempt > 1 && `, attempt ${cell.attempt}`}
      {cell.ticks === 1 &&
        cell.startedAt &&
        cell.endedAt &&
        `, duration ${formatDuration(Date.parse(cell.endedAt) - Date.parse(cell.startedAt))}`}
      {others.length > 0 && cell.runs.length > 0 && (
        <>
          . Other candidates:{' '}
          {others.slice(0, 12).map(({ instance }, at) => (
            <span key={instance}>
              {at > 0 && ' '}
              <InstanceMark id={instance} name={nameOf(instance, data)} short />
            </span>
          ))}
          {others.length > 12 && ` and ${others.length - 12} more`}
        </>
      )}
    </>
  )
}

export function InstanceLabel({ id, data }: { readonly id: string; readonly data: TickTimelineData }) {
  return <InstanceMark id={id} name={nameOf(id, data)} />
}

export function nameOf(id: string, { instances }: TickTimelineData): string | undefined {
  return instances.find((one) => one.id === id)?.name
}

export function cellTitle(cell: TickTimelineCell, data: TickTimelineData): string {
  const { ticks, isEstimate, at, last, runs, gaps, lateMs, attempt } = cell
  const time =
    ticks === 1
      ? formatTick(at)
      : `${formatTick(at)} to ${formatTick(last)}, ${isEstimate ? 'about ' : ''}${formatNumber(ticks)} ticks`
  const won = runs.map(({ instance, state, n, extra }) => {
    const who = instance ? ` by ${nameOf(instance, data) ?? instance}` : ''
    return `${ticks > 1 ? `${formatNumber(n)} ` : ''}${extra ? 'manual run, ' : ''}${state}${who}`
  })
  const without = gaps.map(
    ({ reason, ticks: n }) => `${ticks > 1 ? `${formatNumber(n)} ` : ''}without a run: ${reason}`,
  )
  const more = [lateMs !== null && `delay ${formatDuration(lateMs)}`, attempt > 1 && `attempt ${attempt}`].filter(
    Boolean,
  )
  return [time, ...won, ...without, ...more].join('\n')
}

/** Returns the accessible name of a row. */
export function rowText({ cells, bands, upcoming, rule }: TickTimelineRow): string {
  const ran = cells.reduce((sum, { ticks, gaps }) => sum + ticks - gaps.reduce((n, gap) => n + gap.ticks, 0), 0)
  const without =
    cells.reduce((sum, { gaps }) => sum + gaps.reduce((n, gap) => n + gap.ticks, 0), 0) +
    bands.reduce((sum, { ticks }) => sum + ticks, 0)
  const next = upcoming.reduce((sum, { ticks }) => sum + ticks, 0)
  return `${rule}; ${formatNumber(ran)} ran, ${formatNumber(without)} without a run, ${formatNumber(next)} upcoming`
}

export function clockChangeText(change: TickTimelineRow['changes'][number], timezone: string | null): string {
  const of = timezone ? ` in ${timezone}` : ''
  return change.kind === 'skipped'
    ? `The clocks go forward${of}: the time ${changeTimes(change)} is skipped`
    : `The clocks go back${of}: the time ${changeTimes(change)} occurs twice`
}

export function changeTimes({ local: [begin, end] }: TickTimelineRow['changes'][number]): string {
  return `${begin.slice(0, 5)}–${end.slice(0, 5)}`
}

export function formatTick(at: string): string {
  return formatClock(Date.parse(at))
}
