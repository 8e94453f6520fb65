import './ribbon.css'
import { useRef, useState } from 'preact/hooks'
import { shorten } from '../format.js'
import { Name } from '../parts/name.js'
import { Shape } from '../parts/state.js'
import { useWidth } from '../use-width.js'
import { Band, Cell, Change, Coming, NowLine, rowHeight } from './ribbon-signs.js'
import { inWords, type RibbonData, type RibbonRow, reasons, Told, titleOf, Who } from './ribbon-words.js'
import { roundTimes, scaleOf, TimeAxis } from './time-axis.js'

/** The least width of a step in which a letter can be read. */
export const leastStep = 11
/** The width of the column of names, where there is room beside the plot. */
export const labelWidth = 190

interface RibbonProps {
  readonly data: RibbonData
  /** Opens the details of a schedule; without it names are only names. */
  readonly onOpen?: (row: RibbonRow) => void
}

/** What is looked at. */
interface Chosen {
  readonly key: string
  readonly step: number
}

/** Schedules along time: who won which tick, what has no run and why, and what comes next. */
export function Ribbon({ data, onOpen }: RibbonProps) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box)
  const [chosen, setChosen] = useState<Chosen>()
  const isBeside = width >= 640 && onOpen !== undefined
  const plot = isBeside ? width - labelWidth : width
  const [from, upto] = [Date.parse(data.from), Date.parse(data.upto)]
  const row = data.rows.find(({ key }) => key === chosen?.key)
  const cell = row?.cells.find(({ step }) => step === chosen?.step)
  return (
    <div class="ribbon" data-beside={isBeside || undefined}>
      <div class="ribbon-box" ref={box}>
        {width > 0 && (
          <>
            <div class="ribbon-row">
              {isBeside && <span class="ribbon-label muted small">UTC</span>}
              <TimeAxis from={from} upto={upto} width={plot} />
            </div>
            {data.rows.map((one) => (
              <Row
                key={one.key}
                row={one}
                data={data}
                width={plot}
                onOpen={onOpen}
                chosen={chosen?.key === one.key ? chosen.step : undefined}
                onChoose={(step) => setChosen(step === undefined ? undefined : { key: one.key, step })}
              />
            ))}
          </>
        )}
      </div>
      <p class="ribbon-told small" role="status">
        {row && cell ? (
          <Told row={row} cell={cell} data={data} />
        ) : (
          <span class="muted">Choose a tick to read about it: with the mouse, or with the arrows in a row.</span>
        )}
      </p>
      <Legend data={data} />
    </div>
  )
}

interface RowProps {
  readonly row: RibbonRow
  readonly data: RibbonData
  readonly width: number
  readonly onOpen: RibbonProps['onOpen']
  readonly chosen: number | undefined
  readonly onChoose: (step: number | undefined) => void
}

function Row({ row, data, width, onOpen, chosen, onChoose }: RowProps) {
  const [from, upto] = [Date.parse(data.from), Date.parse(data.upto)]
  const x = scaleOf(from, upto, width)
  const stepWidth = (data.step / (upto - from)) * width
  const move = (event: KeyboardEvent) => {
    const at = row.cells.findIndex(({ step }) => step === chosen)
    const last = row.cells.length - 1
    const to = { ArrowLeft: at < 0 ? last : at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key]
    if (event.key === 'Escape' && chosen !== undefined) onChoose(undefined)
    else if (to === undefined || !row.cells[to]) return
    else onChoose(row.cells[to].step)
    event.preventDefault()
  }
  return (
    <div class="ribbon-row">
      {onOpen && (
        <button type="button" class="ribbon-label ribbon-open" onClick={() => onOpen(row)}>
          <Name text={row.name} most={21} />
          <span class="muted small">
            {shorten(row.rule, 24)}
            {row.pausedAt && <b class="ribbon-paused"> paused</b>}
          </span>
        </button>
      )}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for fields */}
      <div
        class="ribbon-plot"
        role="group"
        // The arrows go from tick to tick.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it takes the arrows
        tabIndex={0}
        aria-label={`Ticks of ${shorten(row.name, 60)}: ${inWords(row)}`}
        onKeyDown={move}
        onClick={({ target }) => {
          const step = (target as Element).closest('[data-step]')?.getAttribute('data-step')
          if (step) onChoose(Number(step) === chosen ? undefined : Number(step))
        }}
      >
        <svg width={width} height={rowHeight} aria-hidden="true">
          <g class="ribbon-grid">
            {roundTimes(from, upto, width).map((time) => (
              <path key={time} d={`M${x(time)} 0v${rowHeight}`} />
            ))}
          </g>
          {row.changes.map((change) => (
            <Change key={change.at} change={change} row={row} x={x} />
          ))}
          {row.bands.map((band) => (
            <Band key={band.first} band={band} x={x} least={stepWidth} />
          ))}
          {row.coming.map((coming) => (
            <Coming key={coming.at} coming={coming} x={x} left={x(from + coming.step * data.step)} width={stepWidth} />
          ))}
          {row.cells.map((cell) => (
            <g
              key={cell.step}
              class="ribbon-cell"
              data-step={cell.step}
              data-chosen={cell.step === chosen || undefined}
            >
              <title>{titleOf(cell)}</title>
              <Cell cell={cell} x={x} left={x(from + cell.step * data.step)} width={stepWidth} />
            </g>
          ))}
          <NowLine x={x} />
        </svg>
      </div>
    </div>
  )
}

function Legend({ data }: { readonly data: RibbonData }) {
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
    <ul class="ribbon-legend small" aria-label="What the signs mean">
      {winners.map((id) => (
        <li key={id}>
          <Who id={id} data={data} />
        </li>
      ))}
      {[...gaps].map((reason) => (
        <li key={reason} class="muted">
          <svg width="12" height="12" aria-hidden="true">
            <path class="ribbon-gap-sign" d={reasons[reason].sign} />
          </svg>
          {reason}
        </li>
      ))}
      <li class="muted">
        <Shape tone="bad" /> failed
      </li>
      <li class="muted">
        <Shape tone="busy" /> runs
      </li>
      <li class="muted">
        <svg width="12" height="12" class="ribbon-coming" aria-hidden="true">
          <circle cx="6" cy="6" r="4" />
        </svg>
        to come
      </li>
    </ul>
  )
}
