// Cells that the table of instances and the details of an instance share.
import { noticeableClockSkewMs, riskyClockSkewMs } from '../../../src/base/clock-skew.js'
import { useNow } from '../../clock.js'
import { formatCount, formatDuration } from '../../format.js'
import { silenceOf, silenceText } from '../../graphics/heartbeats.js'
import { Act } from '../../parts/confirm.js'
import { Meter } from '../../parts/meter.js'
import { State } from '../../parts/state.js'
import { None } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

export type Instance = ViewData<'instances'>['rows'][number]

/** Button that drains an instance. A dead or draining instance has no button. */
export function Drain({ row: { id, host, osPid, alive, state } }: { readonly row: Instance }) {
  if (!alive || state !== 'open') return null
  return <Act act="drain-instance" params={{ id }} label="Drain" subject={`${host}/${osPid}`} />
}

/** Time since the last heartbeat, with the expiry as the limit. */
export function Silence({ row }: { readonly row: Instance }) {
  const silence = silenceOf(row, useNow())
  if (!row.alive || !silence) return <None text={silenceText(row)} />
  const tone = silence.isOver ? 'bad' : silence.isLong ? 'warn' : 'good'
  const caption = `${formatCount(silence.ms)} ago (limit ${formatDuration(row.expiryMs)})`
  return <Meter value={silence.ms} max={row.expiryMs} tone={tone} label="Last heartbeat" caption={caption} />
}

/** Difference between the clocks of the instance and of the database, measured when the instance connected. */
export function Clock({ ahead }: { readonly ahead: number | null }) {
  if (ahead === null) return <None text="unknown" />
  const by = Math.abs(ahead)
  if (by < noticeableClockSkewMs) return <span title={`${ahead} ms ahead when the instance connected`}>OK</span>
  const caption = `${formatDuration(by)} ${ahead > 0 ? 'ahead' : 'behind'}`
  return <State word={caption} tone={by < riskyClockSkewMs ? 'warn' : 'bad'} />
}
