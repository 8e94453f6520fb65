import './tick-timeline.css'
import { useRef, useState } from 'preact/hooks'
import { shorten } from '../format.js'
import { Name } from '../parts/name.js'
import { Shape } from '../parts/state.js'
import { useWidth } from '../use-size.js'
import { Band, Cell, Change, NowLine, rowHeight, Upcoming } from './tick-timeline-marks.js'
import {
  CellDetails,
  cellTitle,
  InstanceLabel,
  reasonTexts,
  rowText,
  type TickTimelineData,
  type TickTimelineRow,
} from './tick-timeline-text.js'
import { scaleOf, TimeAxis, TimeGrid, ZoneLabel } from './time-axis.js'

/** Minimum width of a step that shows a letter. */
export const minStepWidth = 11
export const labelWidth = 190

interface TickTimelineProps {
  readonly data: TickTimelineData
  readonly onOpen?: (row: TickTimelineRow) => void
}

interface SelectedCell {
  readonly key: string
  readonly step: number
}

/** Timeline of schedules' ticks. Shows which instance ran each tick, which ticks had no run, and the upcoming ticks. */
export function TickTimeline({ data, onOpen }: TickTimelineProps) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const [selected, setSelected] = useState<SelectedCell>()
  const hasLabelColumn = width >= 640 && onOpen !== undefined
  const plot = hasLabelColumn ? width - labelWidth : width
  const [from, until] = [Date.parse(data.from), Date.parse(data.until)]
  const row = data.rows.find(({ key }) => key === selected?.key)
  const cell = row?.cells.find(({ step }) => step === selected?.step)
  return (
    <div class="tick-timeline stack">
      <div class="time-rows" data-label-column={hasLabelColumn || undefined} ref={box}>
        {width > 0 && (
          <>
            <div class="time-row">
              {hasLabelColumn && <ZoneLabel time={from} />}
              <TimeAxis from={from} until={until} width={plot} />
            </div>
            {data.rows.map((one) => (
              <Row
                key={one.key}
                row={one}
                data={data}
                width={plot}
                onOpen={onOpen}
                selected={selected?.key === one.key ? selected.step : undefined}
                onSelect={(step) => setSelected(step === undefined ? undefined : { key: one.key, step })}
              />
            ))}
          </>
        )}
      </div>
      <p class="tick-timeline-details small" role="status">
        {row && cell ? (
          <CellDetails row={row} cell={cell} data={data} />
        ) : (
          <span class="muted">Select a tick with the mouse or with the arrow keys to see its details.</span>
        )}
      </p>
      <Legend data={data} />
    </div>
  )
}

interface RowProps {
  readonly row: TickTimelineRow
  readonly data: TickTimelineData
  readonly width: number
  readonly onOpen: TickTimelineProps['onOpen']
  readonly selected: number | undefined
  readonly onSelect: (step: number | undefined) => void
}

function Row({ row, data, width, onOpen, selected, onSelect }: RowProps) {
  const [from, until] = [Date.parse(data.from), Date.parse(data.until)]
  const x = scaleOf(from, until, width)
  const stepWidth = (data.step / (until - from)) * width
  const move = (event: KeyboardEvent) => {
    const at = row.cells.findIndex(({ step }) => step === selected)
    const last = row.cells.length - 1
    const to = { ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key]
    if (event.key === 'Escape' && selected !== undefined) onSelect(undefined)
    else if (to === undefined || !row.cells[to]) return
    else onSelect(row.cells[to].step)
    event.preventDefault()
  }
  return (
    <div class="time-row">
      {onOpen && (
        <button type="button" class="tick-timeline-label tick-timeline-open hovers" onClick={() => onOpen(row)}>
          <Name text={row.name} maxLength={21} />
          <span class="muted small">
            {shorten(row.rule, 24)}
            {row.pausedAt && <b class="tick-timeline-paused"> paused</b>}
          </span>
        </button>
      )}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields */}
      <div
        class="tick-timeline-plot"
        role="group"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move between the ticks
        tabIndex={0}
        aria-label={`Ticks of ${shorten(row.name, 60)}: ${rowText(row)}`}
        onKeyDown={move}
        onClick={({ target }) => {
          const step = (target as Element).closest('[data-step]')?.getAttribute('data-step')
          if (step) onSelect(Number(step) === selected ? undefined : Number(step))
        }}
      >
        <svg width={width} height={rowHeight} aria-hidden="true">
          <TimeGrid from={from} until={until} width={width} height={rowHeight} />
          {row.changes.map((change) => (
            <Change key={change.at} change={change} row={row} x={x} />
          ))}
          {row.bands.map((band) => (
            <Band key={band.first} band={band} x={x} minWidth={stepWidth} />
          ))}
          {row.upcoming.map((coming) => (
            <Upcoming
              key={coming.at}
              upcoming={coming}
              x={x}
              left={x(from + coming.step * data.step)}
              width={stepWidth}
            />
          ))}
          {row.cells.map((cell) => (
            <g
              key={cell.step}
              class="tick-timeline-cell"
              data-step={cell.step}
              data-chosen={cell.step === selected || undefined}
            >
              <title>{cellTitle(cell, data)}</title>
              <Cell cell={cell} data={data} x={x} left={x(from + cell.step * data.step)} width={stepWidth} />
            </g>
          ))}
          <NowLine x={x} />
        </svg>
      </div>
    </div>
  )
}

function Legend({ data }: { readonly data: TickTimelineData }) {
  const seen = new Set(
    data.rows.flatMap(({ cells }) => cells.flatMap(({ runs }) => runs.map(({ instance }) => instance))),
  )
  const gaps = new Set(
    data.rows.flatMap(({ cells, bands }) => [
      ...bands.map(({ reason }) => reason),
      ...cells.flatMap((cell) => cell.gaps.map(({ reason }) => reason)),
    ]),
  )
  const winners = [...seen].filter((id) => id !== null).slice(0, 24)
  if (winners.length === 0 && gaps.size === 0) return null
  return (
    <ul class="tick-timeline-legend small" aria-label="Legend">
      {winners.map((id) => (
        <li key={id} class="inline">
          <InstanceLabel id={id} data={data} />
        </li>
      ))}
      {[...gaps].map((reason) => (
        <li key={reason} class="inline muted">
          <svg width="12" height="12" aria-hidden="true">
            <path class="tick-timeline-gap-sign" d={reasonTexts[reason].path} />
          </svg>
          {reason}
        </li>
      ))}
      <li class="inline muted">
        <Shape tone="bad" /> failed
      </li>
      <li class="inline muted">
        <Shape tone="busy" /> running
      </li>
      <li class="inline muted">
        <svg width="12" height="12" class="tick-timeline-upcoming" aria-hidden="true">
          <circle cx="6" cy="6" r="4" />
        </svg>
        upcoming
      </li>
    </ul>
  )
}
