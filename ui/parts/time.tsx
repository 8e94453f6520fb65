import { now, useNow } from '../clock.js'
import { formatCount, formatDuration, formatMoment } from '../format.js'

export type Timestamp = string | null | undefined

/** A time: `14:03:11`, with the day if that is not today. The title has the full time. */
export function When({ at }: { readonly at: Timestamp }) {
  if (!at) return <None />
  return (
    <time dateTime={at} title={fullTime(at)}>
      {formatMoment(Date.parse(at), now())}
    </time>
  )
}

/** Distance from now, updated every second: `12s ago`, `in 3m 2s`. */
export function Ago({ at }: { readonly at: Timestamp }) {
  const time = useNow()
  if (!at) return <None />
  const ms = time - Date.parse(at)
  return (
    <time dateTime={at} title={fullTime(at)}>
      {Math.abs(ms) < 1_000 ? 'now' : ms < 0 ? `in ${formatCount(-ms)}` : `${formatCount(ms)} ago`}
    </time>
  )
}

/** A time and its distance from now. */
export function TimeAndAge({ at }: { readonly at: string }) {
  return (
    <>
      <When at={at} />{' '}
      <span class="muted">
        (<Ago at={at} />)
      </span>
    </>
  )
}

/** Duration since `at`, updated every second: `4m 10s`. */
export function Elapsed({ at }: { readonly at: Timestamp }) {
  const time = useNow()
  if (!at) return <None />
  return (
    <time dateTime={at} title={`since ${fullTime(at)}`}>
      {formatCount(time - Date.parse(at))}
    </time>
  )
}

/** A duration. With `from`, the time at which it was measured, it grows. */
export function Age({ ms, from }: { readonly ms: number | null | undefined; readonly from?: string | undefined }) {
  if (ms === null || ms === undefined) return <None />
  if (from === undefined) return <span>{formatDuration(ms)}</span>
  return <Elapsed at={new Date(Date.parse(from) - ms).toISOString()} />
}

/** Absence of a value. `text` is for screen readers. */
export function None({ text = 'none' }: { readonly text?: string }) {
  return (
    <span class="muted">
      <span aria-hidden="true">–</span>
      <span class="visually-hidden">{text}</span>
    </span>
  )
}

function fullTime(at: string): string {
  return `${at.replace('T', ' ').replace('Z', '')} UTC`
}
