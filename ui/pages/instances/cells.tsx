// What the table of instances and the page of one instance both show of it.
import { noticeableClockSkewMs, riskyClockSkewMs } from '../../../src/base/clock-skew.js'
import { useNow } from '../../clock.js'
import { formatDuration } from '../../format.js'
import { silenceOf, silenceText } from '../../graphics/heartbeats.js'
import { Act } from '../../parts/confirm.js'
import { Meter } from '../../parts/meter.js'
import { State } from '../../parts/state.js'
import { None } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

export type Instance = ViewData<'instances'>['rows'][number]

/** Whoever is gone or leaves already cannot be asked. */
export function Drain({ row: { id, host, osPid, alive, state } }: { readonly row: Instance }) {
  if (!alive || state !== 'open') return null
  return <Act act="drain-instance" params={{ id }} label="Drain" subject={`${host}/${osPid}`} />
}

/** How long it has been silent, of the time after which it is given up. */
export function Silence({ row }: { readonly row: Instance }) {
  const silence = silenceOf(row, useNow())
  if (!row.alive || !silence) return <None text={silenceText(row)} />
  const tone = silence.isOver ? 'bad' : silence.isLong ? 'warn' : 'good'
  const caption = `${formatDuration(Math.floor(silence.ms / 1_000) * 1_000).replace(/^0ms$/, '0s')} / ${formatDuration(row.expiryMs)}`
  return <Meter value={silence.ms} max={row.expiryMs} tone={tone} label="Silent for" caption={caption} />
}

/** How its clock compared with the database's when its life began. */
export function Clock({ ahead }: { readonly ahead: number | null }) {
  if (ahead === null) return <None text="not known" />
  const by = Math.abs(ahead)
  if (by < noticeableClockSkewMs) return <span title={`${ahead} ms ahead when its life began`}>in step</span>
  const caption = `${formatDuration(by)} ${ahead > 0 ? 'ahead' : 'behind'}`
  return <State word={caption} tone={by < riskyClockSkewMs ? 'warn' : 'bad'} />
}
