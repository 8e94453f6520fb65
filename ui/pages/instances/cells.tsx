// Cells shared by the instance table and an instance's details.
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

/** Button that drains an instance. The button is omitted if the instance is dead or already draining. */
export function Drain({ row: { id, name, alive, state } }: { readonly row: Instance }) {
  if (!alive || state !== 'open') return null
  return <Act act="drain-instance" params={{ id }} label="Drain" subject={name} />
}

/** Shows the time since the last heartbeat, compared with the expiry. */
export function Silence({ row }: { readonly row: Instance }) {
  const silence = silenceOf(row, useNow())
  if (!row.alive || !silence) return <None text={silenceText(row)} />
  const tone = silence.isOver ? 'bad' : silence.isLong ? 'warn' : 'good'
  const caption = `${formatCount(silence.ms)} ago (limit ${formatDuration(row.expiryMs)})`
  return <Meter value={silence.ms} max={row.expiryMs} tone={tone} label="Last heartbeat" caption={caption} />
}

/** Shows the difference between the instance's clock and the database's clock, measured when the instance connected. */
export function Clock({ ahead }: { readonly ahead: number | null }) {
  if (ahead === null) return <None text="unknown" />
  const by = Math.abs(ahead)
  if (by < noticeableClockSkewMs)
    return <span title={`The clock was ${ahead} ms ahead of the database when the instance connected.`}>OK</span>
  const caption = `${formatDuration(by)} ${ahead > 0 ? 'ahead' : 'behind'}`
  return <State word={caption} tone={by < riskyClockSkewMs ? 'warn' : 'bad'} />
}
