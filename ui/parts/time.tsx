import { now, useNow } from '../clock.js'
import { formatCount, formatDuration, formatMoment } from '../format.js'

type Timestamp = string | null | undefined

/** A moment: `14:03:11`, with its day when that is not today. The whole is in the title. */
export function When({ at }: { readonly at: Timestamp }) {
  if (!at) return <None />
  return (
    <time dateTime={at} title={`${at.replace('T', ' ').replace('Z', '')} UTC`}>
      {formatMoment(Date.parse(at), now())}
    </time>
  )
}

/** How long ago something was, or how soon it will be, counting: `12s ago`, `in 3m 2s`. */
export function Ago({ at }: { readonly at: Timestamp }) {
  const time = useNow()
  if (!at) return <None />
  const ms = time - Date.parse(at)
  return (
    <time dateTime={at} title={`${at.replace('T', ' ').replace('Z', '')} UTC`}>
      {Math.abs(ms) < 1_000 ? 'now' : ms < 0 ? `in ${formatCount(-ms)}` : `${formatCount(ms)} ago`}
    </time>
  )
}

/** A moment, and how long ago or how soon it is. */
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

/** For how long something has been so, counting: `4m 10s`. With `until`, how long is left. */
export function Elapsed({ at, until }: { readonly at?: Timestamp; readonly until?: Timestamp }) {
  const time = useNow()
  const from = at ?? until
  if (!from) return <None />
  const ms = at ? time - Date.parse(at) : Date.parse(from) - time
  return (
    <time dateTime={from} title={`${at ? 'since' : 'until'} ${from.replace('T', ' ').replace('Z', '')} UTC`}>
      {ms < 0 && until ? 'over' : formatCount(ms)}
    </time>
  )
}

/**
 * The same, of an age that was told in a picture: `4m 10s` at its time, and counting since then.
 */
export function Age({ ms, from }: { readonly ms: number | null | undefined; readonly from?: string | undefined }) {
  if (ms === null || ms === undefined) return <None />
  if (from === undefined) return <span>{formatDuration(ms)}</span>
  return <Elapsed at={new Date(Date.parse(from) - ms).toISOString()} />
}

/** Nothing is known, or there is nothing. */
export function None({ text = 'none' }: { readonly text?: string }) {
  return (
    <span class="muted">
      <span aria-hidden="true">–</span>
      <span class="visually-hidden">{text}</span>
    </span>
  )
}
