import { formatNumber, shorten } from '../../format.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { HolderPanel } from '../../parts/holders.js'
import { Meter } from '../../parts/meter.js'
import { Name } from '../../parts/name.js'
import { Panel } from '../../parts/panel.js'
import type { Column } from '../../parts/table.js'
import { Ago, None } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

const columns: Column<ViewData<'limit'>['holders'][number]>[] = [{ title: 'Permits', number: ({ weight }) => weight }]

interface OneLimitProps {
  readonly namespace: string
  readonly name: string
  readonly onClose: () => void
}

/** Details of a limit, with the holders of its permits, its waiting calls, and its rate. */
export function OneLimit({ namespace, name, onClose }: OneLimitProps) {
  const live = useView('limit', { namespace, name })
  const { data } = live
  return (
    <Dialog kind="side" title={shorten(name, 60)} onClose={onClose}>
      <Panel title="Now" live={live}>
        {data && (
          <div class="stack">
            <Facts
              facts={[
                ['Name', <Name key="name" text={name} maxLength={300} copy />],
                ['Namespace', <bdi key="namespace">{namespace}</bdi>],
                [
                  'In use',
                  data.max === null ? (
                    <None key="in-use" text="nothing" />
                  ) : (
                    <Meter key="in-use" label={name} value={data.inUse} max={data.max} />
                  ),
                ],
                ['Holders', formatNumber(data.holding)],
                ['Waiting', formatNumber(data.waiting)],
                data.rate !== undefined && ['Rate refill', <Ago key="rate" at={data.rate.refilledAt} />],
              ]}
            />
            <div class="row-acts">
              <Act act="reset-limit" params={{ namespace, name }} label="Reset" subject={name} />
            </div>
          </div>
        )}
      </Panel>
      <HolderPanel title="Holders" live={live} rows={data?.holders} count={data?.holding} columns={columns} />
      <HolderPanel title="Waiting, in order" live={live} rows={data?.waiters} count={data?.waiting} columns={columns} />
    </Dialog>
  )
}
