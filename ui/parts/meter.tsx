import './meter.css'
import { formatNumber } from '../format.js'
import type { Tone } from './state.js'

interface MeterProps {
  readonly value: number
  readonly max: number
  /** Accessible name. */
  readonly label: string
  readonly tone: Tone
  /** Replaces `3 / 5`. */
  readonly caption?: string
}

/** Shows usage as a bar and as numbers. */
export function Meter({ value, max, label, tone, caption }: MeterProps) {
  const part = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0
  const text = caption ?? `${formatNumber(value)} / ${formatNumber(max)}`
  return (
    <span class="meter inline">
      {/* biome-ignore lint/a11y/useSemanticElements: browsers do not support these colours for <meter> */}
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
