import './sparkline.css'

interface SparklineProps {
  readonly values: readonly number[]
  /** Values that are drawn as bars in the colour of problems. */
  readonly problems?: readonly number[] | undefined
}

const [width, height] = [120, 22]

/** Line of at most 60 values without axes, which shows a trend. The text next to the line must state the current value. */
export function Sparkline({ values, problems = [] }: SparklineProps) {
  if (values.length < 2) return null
  const max = Math.max(1, ...values)
  const step = width / (values.length - 1)
  const y = (value: number) => (height - 1 - (value / max) * (height - 3)).toFixed(1)
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${y(value)}`)
  const maxProblems = Math.max(1, ...problems)
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <polyline points={`0,${height} ${points.join(' ')} ${width},${height}`} class="sparkline-area" />
      <polyline points={points.join(' ')} class="sparkline-line" />
      {problems.map((value, at) => {
        if (value === 0) return null
        const tall = 3 + (value / maxProblems) * (height / 2 - 3)
        return <rect key={at} class="sparkline-problem" x={at * step - 1} y={height - tall} width="2" height={tall} />
      })}
    </svg>
  )
}
