import { formatNumber, shorten } from '../../format.js'
import { useView } from '../../live.js'
import { Act } from '../../parts/confirm.js'
import { Dialog } from '../../parts/dialog.js'
import { Facts } from '../../parts/facts.js'
import { WhoIs } from '../../parts/mark.js'
import { Meter } from '../../parts/meter.js'
import { Name } from '../../parts/name.js'
import { Panel, type PanelProps } from '../../parts/panel.js'
import { Table } from '../../parts/table.js'
import { Ago, None, Since } from '../../parts/time.js'
import type { Says } from '../../wire.js'

type Permits = Says<'limit'>['holders']

interface OneLimitProps {
  readonly namespace: string
  readonly name: string
  readonly onClose: () => void
}

/** All about one limit: who has its permits, who stands in the queue, and what is spent of its rate. */
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
                ['Name', <Name key="name" text={name} most={300} copy />],
                ['Namespace', <bdi key="namespace">{namespace}</bdi>],
                [
                  'In use',
                  data.max === null ? (
                    <None key="in-use" says="nothing" />
                  ) : (
                    <Meter key="in-use" label={name} value={data.inUse} max={data.max} />
                  ),
                ],
                ['Holders', formatNumber(data.holding)],
                ['Waiting', formatNumber(data.waiting)],
                data.rate !== undefined && ['Its rate has rested', <Ago key="rate" at={data.rate.restedAt} />],
              ]}
            />
            <div class="row-acts">
              <Act act="reset-limit" params={{ namespace, name }} label="Reset" of={name} />
            </div>
          </div>
        )}
      </Panel>
      {data && data.holders.length > 0 && (
        <People title="Holders" live={live} rows={data.holders} count={data.holding} />
      )}
      {data && data.waiters.length > 0 && (
        <People title="Who waits, in their order" live={live} rows={data.waiters} count={data.waiting} />
      )}
    </Dialog>
  )
}

interface PeopleProps extends Pick<PanelProps, 'title' | 'live'> {
  readonly rows: Permits
  readonly count: number
}

function People({ title, live, rows, count }: PeopleProps) {
  return (
    <Panel title={title} live={live} count={count} padded={false}>
      <Table
        label={title}
        rows={rows}
        total={count}
        keyOf={({ instance, since, fence }) => `${instance} ${since} ${fence}`}
        columns={[
          { title: 'Who', cell: (row) => <WhoIs who={row} />, wide: true },
          { title: 'Permits', cell: ({ weight }) => weight, align: 'end' },
          { title: 'For', cell: ({ since }) => <Since at={since} />, align: 'end' },
          { title: 'Fence', cell: ({ fence }) => fence ?? <None says="it waits" />, align: 'end', spare: 2 },
        ]}
        empty={null}
      />
    </Panel>
  )
}
