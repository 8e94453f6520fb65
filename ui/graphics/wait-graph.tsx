// Draws the wait graph in layers: holders that block others, then the names that these holders hold, then the waiting
// participants. Arrows point from a waiting participant to the name, and from the name to its holder.
import './wait-graph.css'
import { useMemo, useRef, useState } from 'preact/hooks'
import { useNow } from '../clock.js'
import { formatCount } from '../format.js'
import type { WaitGraphData } from '../pages/now/labels.js'
import { boxHeight, type DrawnEdge, type DrawnNode, drawWaits, type Point } from './wait-layout.js'

interface WaitGraphProps {
  readonly waits: WaitGraphData
  /** Time when the data was read, according to the database clock. */
  readonly at: string | undefined
  /** ID of the selected participant or name. */
  readonly selected: string | undefined
  readonly onSelect: (id: string) => void
  /** Whether the layers are arranged from top to bottom instead of from left to right. */
  readonly isUpright: boolean
}

/** Maximum height of a drawing that is shown without a scroll bar, in pixels. */
const maxHeight = 360

export function WaitGraph({ waits, at, selected, onSelect, isUpright }: WaitGraphProps) {
  const time = useNow()
  const box = useRef<SVGSVGElement>(null)
  const [isWhole, setWhole] = useState(false)
  const { nodes, edges, width, height } = useMemo(() => drawWaits(waits, isUpright), [waits, isUpright])
  const elapsedMs = at === undefined ? 0 : Math.max(0, time - Date.parse(at))
  const selectable = nodes.filter(({ kind }) => kind !== 'more')
  const reachable = selectable.some(({ id }) => id === selected) ? selected : selectable[0]?.id
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key]
    const all = [...box.current!.querySelectorAll<SVGElement>('[role="button"]')]
    const now = all.indexOf(event.target as SVGElement)
    const next = event.key === 'Home' ? all[0] : event.key === 'End' ? all.at(-1) : step ? all[now + step] : undefined
    if (now < 0 || !next) return
    event.preventDefault()
    next.focus()
  }
  return (
    <div class="stack tight">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll this area */}
      <section class="wait-graph" aria-label="Wait graph" tabIndex={0} data-whole={isWhole || undefined}>
        {/* biome-ignore lint/a11y/useSemanticElements: SVG has no semantic element for a group */}
        <svg
          ref={box}
          role="group"
          aria-label="Participants and names. The arrow keys move between them."
          width={width}
          height={height}
          // The drawing shrinks by up to 20 % before a scroll bar appears.
          style={{ minWidth: `${Math.round(width * 0.8)}px` }}
          viewBox={`0 0 ${width} ${height}`}
          onKeyDown={move}
        >
          {edges.map((edge) => (
            <Edge key={`${edge.kind} ${edge.from} ${edge.to}`} edge={edge} elapsedMs={elapsedMs} />
          ))}
          {nodes.map((node) => (
            <Node
              key={node.id}
              node={node}
              isSelected={node.id === selected}
              isReachable={node.id === reachable}
              onSelect={onSelect}
            />
          ))}
        </svg>
      </section>
      {height > maxHeight && (
        <button type="button" class="button wait-graph-more" onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Show less' : 'Show all'}
        </button>
      )}
    </div>
  )
}

interface NodeProps {
  readonly node: DrawnNode
  readonly isSelected: boolean
  readonly isReachable: boolean
  readonly onSelect: (id: string) => void
}

/** Draws an octagon for a deadlock, or a triangle for a possible deadlock. */
const icons = { certain: 'M4 1h5l3 3v5l-3 3H4L1 9V4z', possible: 'M6.500 1l6 11h-12z' }

function Node({ node, isSelected, isReachable, onSelect }: NodeProps) {
  const { id, kind, title, caption, role, mark, label, width, x, y } = node
  const left = kind === 'who' ? 40 : 14
  const sign = role === 'certain' || role === 'possible' ? icons[role] : undefined
  const inside = (
    <>
      <rect class="box" width={width} height={boxHeight} rx={kind === 'who' ? boxHeight / 2 : 6} />
      {kind === 'who' && mark && (
        <>
          <rect fill="var(--mark)" style={mark.style} x="12" y="12" width="20" height="20" rx="4" />
          <text class="mark-text" x="22" y="26" text-anchor="middle">
            {`${mark.letter} `}
          </text>
        </>
      )}
      {kind === 'who' && !mark && <path class="stranger" d="M22 13a4 4 0 1 1 0 8a4 4 0 0 1 0-8M14 31c0-7 16-7 16 0" />}
      <text class="title" x={left} y="19">
        {`${title} `}
      </text>
      {sign && <path class="sign" d={sign} transform={`translate(${left} 25)`} />}
      <text class="caption" x={sign ? left + 17 : left} y="35">
        {caption}
      </text>
    </>
  )
  const place = { class: `node ${kind} ${role}`, transform: `translate(${x - width / 2} ${y - boxHeight / 2})` }
  if (kind === 'more') return <g {...place}>{inside}</g>
  return (
    // biome-ignore lint/a11y/useSemanticElements: SVG has no button element
    <g
      {...place}
      role="button"
      // The attribute is written in lower case, because the names of SVG attributes are case-sensitive.
      tabindex={isReachable ? 0 : -1}
      aria-pressed={isSelected}
      aria-label={[mark?.letter, title, caption].filter(Boolean).join(' ')}
      onClick={() => onSelect(id)}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return
        event.preventDefault()
        onSelect(id)
      }}
    >
      <title>{label}</title>
      {inside}
    </g>
  )
}

function Edge({ edge, elapsedMs }: { readonly edge: DrawnEdge; readonly elapsedMs: number }) {
  const { kind, role, caption, forMs, points, middle } = edge
  const [tip, before] = points as [Point, Point]
  const angle = (Math.atan2(tip.y - before.y, tip.x - before.x) * 180) / Math.PI
  const text = [caption, forMs !== null && formatCount(forMs + elapsedMs)].filter(Boolean).join(' ')
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a line cannot receive focus
    <g class={`edge ${kind} ${role}`} aria-hidden="true">
      <path class="line" d={curve(points)} />
      <path class="head" d="M0 0L-9-4V4z" transform={`translate(${tip.x} ${tip.y}) rotate(${angle})`} />
      <text x={middle.x} y={middle.y + 4} text-anchor="middle">
        {text}
      </text>
    </g>
  )
}

/** Returns a path with round corners, which passes through the middle of each segment. */
function curve(points: readonly Point[]): string {
  const [first, ...rest] = points as [Point, ...Point[]]
  const last = rest.at(-1)!
  const bends = rest.slice(0, -1).map((point, at) => {
    const next = rest[at + 1]!
    const end = next === last ? next : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 }
    return `Q${point.x} ${point.y} ${end.x} ${end.y}`
  })
  return `M${first.x} ${first.y}${bends.length > 0 ? bends.join('') : `L${last.x} ${last.y}`}`
}
