import { now, useNow } from '../clock.js'
import { formatCount, formatDuration, formatFull, formatMoment } from '../format.js'

export type Timestamp = string | null | undefined

/** Shows a time such as `14:03:11`, with the day if it is not today. The tooltip shows the full time. */
export function When({ at }: { readonly at: Timestamp }) {
  if (!at) return <None />
  return (
    <time dateTime={at} title={fullTime(at)}>
      {formatMoment(Date.parse(at), now())}
    </time>
  )
}

/** Shows a time's distance from now, such as `12s ago` or `in 3m 2s`. Updated every second. */
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

/** Shows the duration since `at`, such as `4m 10s`. Updated every second. */
export function Elapsed({ at }: { readonly at: Timestamp }) {
  const time = useNow()
  if (!at) return <None />
  return (
    <time dateTime={at} title={`since ${fullTime(at)}`}>
      {formatCount(time - Date.parse(at))}
    </time>
  )
}

/** Shows a duration. If `from` is the time when the duration was measured, the shown duration grows. */
export function Age({ ms, from }: { readonly ms: number | null | undefined; readonly from?: string | undefined }) {
  if (ms === null || ms === undefined) return <None />
  if (from === undefined) return <span>{formatDuration(ms)}</span>
  return <Elapsed at={new Date(Date.parse(from) - ms).toISOString()} />
}

/** Shows that a value is missing. Screen readers read `text`. */
export function None({ text = 'none' }: { readonly text?: string }) {
  return (
    <span class="muted none">
      <span aria-hidden="true">–</span>
      <span class="visually-hidden">{text}</span>
    </span>
  )
}

/** Shows the time until `at`, such as `in 3m 2s`, or `due` if the time has passed. Updated every second. */
export function Until({ at }: { readonly at: Timestamp }) {
  const time = useNow()
  if (!at) return <None />
  const ms = Date.parse(at) - time
  return (
    <time dateTime={at} title={fullTime(at)}>
      {ms <= 0 ? 'due' : `in ${formatCount(ms)}`}
    </time>
  )
}

function fullTime(at: string): string {
  return formatFull(Date.parse(at))
}
