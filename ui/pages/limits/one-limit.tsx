import { formatNumber, shorten } from '../../format.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { OwnerMark } from '../../parts/instance-mark.js'
import { Meter } from '../../parts/meter.js'
import { Name } from '../../parts/name.js'
import { Panel, type PanelProps } from '../../parts/panel.js'
import { Table } from '../../parts/table.js'
import { Ago, None } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

type Permits = ViewData<'limit'>['holders']

interface OneLimitProps {
  readonly namespace: string
  readonly name: string
  readonly onClose: () => void
}

/** Details of a limit: holders of its permits, waiting calls, and its rate. */
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
      {data && data.holders.length > 0 && (
        <PermitPanel title="Holders" live={live} rows={data.holders} count={data.holding} />
      )}
      {data && data.waiters.length > 0 && (
        <PermitPanel title="Waiting, in order" live={live} rows={data.waiters} count={data.waiting} />
      )}
    </Dialog>
  )
}

interface PermitPanelProps extends Pick<PanelProps, 'title' | 'live'> {
  readonly rows: Permits
  readonly count: number
}

function PermitPanel({ title, live, rows, count }: PermitPanelProps) {
  return (
    <Panel title={title} live={live} count={count} padded={false}>
      <Table
        label={title}
        rows={rows}
        total={count}
        keyOf={({ instance, since, fence }) => `${instance} ${since} ${fence}`}
        columns={[
          { title: 'Instance', cell: (row) => <OwnerMark owner={row} />, wide: true },
          { title: 'Permits', number: ({ weight }) => weight },
          { title: 'For', since: ({ since }) => since },
          { title: 'Fence', cell: ({ fence }) => fence ?? <None text="waiting" />, align: 'end', spare: 2 },
        ]}
        empty={null}
      />
    </Panel>
  )
}
