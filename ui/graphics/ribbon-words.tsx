// What the ribbon says of ticks: in a line below it, in titles, and to those who do not see it.
import { formatClock, formatDuration, formatNumber } from '../format.js'
import { markOf } from '../marks.js'
import { InstanceMark } from '../parts/mark.js'
import { Name } from '../parts/name.js'
import type { Says } from '../wire.js'

export type RibbonData = Says<'ribbon'>
export type RibbonRow = RibbonData['rows'][number]
export type RibbonCell = RibbonRow['cells'][number]
export type Reason = RibbonRow['bands'][number]['reason']

/** Why ticks have no run, as a sign and in words. */
export const reasons: Readonly<Record<Reason, { readonly sign: string; readonly says: string }>> = {
  paused: { sign: 'M4 2.500v7M8 2.500v7', says: 'paused: an operator wanted it' },
  overlap: { sign: 'M2 4.500h5.500V10H2zM4.500 4.500V2H10v5.500H7.500', says: 'overlap: an earlier run was there' },
  missed: {
    sign: 'M6 2a4 4 0 1 1 0 8 4 4 0 0 1 0-8M3.200 8.800l5.600-5.600',
    says: 'missed: nobody took it in time',
  },
  'no instance': { sign: 'M2 3h8v6H2zM2 9l8-6M2 3l8 6', says: 'no instance: nobody who could was there' },
  limit: { sign: 'M2 2.500h8M6 10V5M3.500 7.500L6 5l2.500 2.500', says: 'limit: more were missed than may run late' },
}

/** What is known of the ticks that were chosen. */
export function Told({
  row,
  cell,
  data,
}: {
  readonly row: RibbonRow
  readonly cell: RibbonCell
  readonly data: RibbonData
}) {
  const winners = new Set(cell.runs.map(({ instance }) => instance))
  const contenders = row.members.filter(({ instance, since }) => since <= cell.last && !winners.has(instance))
  return (
    <>
      <b>
        <Name text={row.name} />
      </b>{' '}
      {cell.ticks === 1
        ? `tick ${momentOf(cell.at)}`
        : `${cell.about ? 'about ' : ''}${formatNumber(cell.ticks)} ticks, ${momentOf(cell.at)} to ${momentOf(cell.last)}`}
      {cell.runs.map(({ instance, state, n, extra }, at) => (
        <span key={`${instance} ${state} ${extra}`}>
          {at > 0 ? '; ' : ': '}
          {cell.ticks > 1 && `${formatNumber(n)} `}
          {extra && 'asked for, '}
          {state}
          {instance && (
            <>
              {' by '}
              <Who id={instance} data={data} />
            </>
          )}
        </span>
      ))}
      {cell.gaps.map(({ reason, ticks }) => (
        <span key={reason}>
          ; {formatNumber(ticks)} without a run, {reasons[reason].says}
        </span>
      ))}
      {cell.about && '; the instances are a sample'}
      {cell.late !== null && `. Began ${formatDuration(cell.late)} after its tick`}
      {cell.attempt > 1 && `, attempt ${cell.attempt}`}
      {cell.ticks === 1 &&
        cell.startedAt &&
        cell.endedAt &&
        `, took ${formatDuration(Date.parse(cell.endedAt) - Date.parse(cell.startedAt))}`}
      {contenders.length > 0 && cell.runs.length > 0 && (
        <>
          . It could also have been{' '}
          {contenders.slice(0, 12).map(({ instance }, at) => (
            <span key={instance}>
              {at > 0 && ' '}
              <InstanceMark id={instance} />
            </span>
          ))}
          {contenders.length > 12 && ` and ${contenders.length - 12} more`}
        </>
      )}
    </>
  )
}

/** An instance by its letter, and its machine where that is still known. */
export function Who({ id, data }: { readonly id: string; readonly data: Pick<RibbonData, 'instances'> }) {
  const known = data.instances.find((one) => one.id === id)
  return <InstanceMark id={id} label={known ? `${known.host}/${known.osPid}` : id} />
}

export function titleOf(cell: RibbonCell): string {
  const { ticks, about, at, last, runs, gaps, late, attempt } = cell
  const when =
    ticks === 1
      ? momentOf(at)
      : `${momentOf(at)} to ${momentOf(last)}, ${about ? 'about ' : ''}${formatNumber(ticks)} ticks`
  const won = runs.map(({ instance, state, n, extra }) => {
    const who = instance ? ` by ${markOf(instance).letter}` : ''
    return `${ticks > 1 ? `${formatNumber(n)} ` : ''}${extra ? 'asked for, ' : ''}${state}${who}`
  })
  const without = gaps.map(
    ({ reason, ticks: n }) => `${ticks > 1 ? `${formatNumber(n)} ` : ''}without a run: ${reason}`,
  )
  const more = [late !== null && `${formatDuration(late)} late`, attempt > 1 && `attempt ${attempt}`].filter(Boolean)
  return [when, ...won, ...without, ...more].join('\n')
}

/** What a row says to those who do not see it. */
export function inWords({ cells, bands, coming, rule }: RibbonRow): string {
  const ran = cells.reduce((sum, { ticks, gaps }) => sum + ticks - gaps.reduce((n, gap) => n + gap.ticks, 0), 0)
  const without =
    cells.reduce((sum, { gaps }) => sum + gaps.reduce((n, gap) => n + gap.ticks, 0), 0) +
    bands.reduce((sum, { ticks }) => sum + ticks, 0)
  const next = coming.reduce((sum, { ticks }) => sum + ticks, 0)
  return `${rule}; ${formatNumber(ran)} ran, ${formatNumber(without)} without a run, ${formatNumber(next)} to come`
}

export function changeInWords(change: RibbonRow['changes'][number], timezone: string | null): string {
  const of = timezone ? ` in ${timezone}` : ''
  return change.kind === 'skipped'
    ? `The clocks go forward${of}: there is no ${shortTimes(change)}`
    : `The clocks go back${of}: ${shortTimes(change)} comes twice`
}

export function shortTimes({ local: [begin, end] }: RibbonRow['changes'][number]): string {
  return `${begin.slice(0, 5)}–${end.slice(0, 5)}`
}

export function momentOf(at: string): string {
  return formatClock(Date.parse(at))
}
