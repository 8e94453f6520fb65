import './meter.css'
import { formatNumber } from '../format.js'
import type { Tone } from './state.js'

interface MeterProps {
  readonly value: number
  readonly max: number
  /** What is measured, for those who do not see it. */
  readonly label: string
  readonly tone?: Tone
  /** Instead of `3 / 5`. */
  readonly caption?: string
}

/** How much of something is used, as a bar and as numbers. */
export function Meter({ value, max, label, tone = value >= max ? 'warn' : 'busy', caption }: MeterProps) {
  const part = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0
  const text = caption ?? `${formatNumber(value)} / ${formatNumber(max)}`
  return (
    <span class="meter">
      {/* biome-ignore lint/a11y/useSemanticElements: browsers do not let <meter> be drawn in these colours */}
      <span
        class="meter-bar"
        role="meter"
        aria-label={label}
        aria-valuenow={value}
        aria-valuemin={0}
        aria-valuemax={max}
        aria-valuetext={text}
      >
        <span class={`meter-part ${tone}`} style={{ inlineSize: `${part * 100}%` }} />
      </span>
      <span aria-hidden="true">{text}</span>
    </span>
  )
}
