import { formatNumber } from '../../format.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { HolderDialog } from '../../parts/holders.js'
import { Meter } from '../../parts/meter.js'
import { Ago, None } from '../../parts/time.js'

interface OneLimitProps {
  readonly namespace: string
  readonly name: string
  readonly onClose: () => void
}

export function OneLimit({ namespace, name, onClose }: OneLimitProps) {
  const live = useView('limit', { namespace, name })
  const { max = null, inUse = 0, holding = 0, waiting = 0, rate } = live.data ?? {}
  return (
    <HolderDialog
      name={name}
      live={live}
      facts={[
        ['Namespace', <bdi key="namespace">{namespace}</bdi>],
        [
          'In use',
          max === null ? (
            <None text="nothing" />
          ) : (
            <Meter label={name} value={inUse} max={max} tone={waiting ? 'warn' : 'busy'} />
          ),
        ],
        ['Holders', formatNumber(holding)],
        ['Waiting', formatNumber(waiting)],
        rate !== undefined && ['Rate refill', <Ago key="rate" at={rate.refilledAt} />],
      ]}
      acts={<Act act="reset-limit" params={{ namespace, name }} label="Reset" subject={name} />}
      waitersTitle="Waiting, in order"
      columns={[{ title: 'Permits', number: ({ weight }) => weight }]}
      onClose={onClose}
    />
  )
}
