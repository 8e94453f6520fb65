import { formatNumber } from '../format.js'
import { useView } from '../live.js'
import { namespaceColumns } from '../parts/columns.js'
import { Act } from '../parts/confirm.js'
import { Meter } from '../parts/meter.js'
import { Page } from '../parts/page.js'
import { Empty } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State, type Tone, toneOf } from '../parts/state.js'
import { TablePanel } from '../parts/table.js'
import { Ago, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import type { ViewData } from '../wire.js'
import { OneLimit } from './limits/one-limit.js'

type Row = ViewData<'limits'>['rows'][number]

export function Limits() {
  const { namespace, search, all, limit, of } = useParams<'limits'>()
  const limits = useView('limits', { namespace, search, all: all === 'true' ? true : undefined })
  const { rows = [], searchedRows = null } = limits.data ?? {}
  const opened = rows.find((row) => row.name === limit && row.namespace === of)
  return (
    <Page tools={<Search subject="limits" example="export:" />}>
      {limit !== undefined && of !== undefined && (
        <OneLimit
          namespace={of}
          name={limit}
          onClose={() => setParams({ limit: undefined, of: undefined })}
          key={`${of} ${limit}`}
        />
      )}
      <TablePanel
        title="Limits"
        live={limits}
        count={rows.length}
        description="The search matches the beginning of names. Full limits come first."
        tools={
          <label class="small">
            <input
              type="checkbox"
              checked={all === 'true'}
              onChange={({ currentTarget }) => setParams({ all: currentTarget.checked ? 'true' : undefined })}
            />{' '}
            Show idle limits
          </label>
        }
        rows={rows}
        keyOf={keyOf}
        opened={opened && keyOf(opened)}
        onOpen={({ namespace, name }) => setParams({ limit: name, of: namespace }, 'push')}
        columns={[
          { title: 'Name', name: ({ name }) => name, wide: true },
          { title: 'Kind', text: ({ kind }) => kind, spare: 2 },
          {
            title: 'State',
            cell: ({ state, waiting }) => <State word={state} tone={toneOfLimit(state, waiting)} />,
            sort: ({ state }) => state,
          },
          {
            title: 'In use',
            cell: ({ name, inUse, max, waiting }) =>
              inUse === null || max === null ? (
                <None />
              ) : (
                <Meter label={name} value={inUse} max={max} tone={waiting ? 'warn' : 'busy'} />
              ),
            sort: ({ inUse }) => inUse,
          },
          { title: 'Holders', cell: ({ holders }) => holders ?? <None />, align: 'end', spare: 1 },
          { title: 'Waiting', number: ({ waiting }) => waiting, cell: ({ waiting }) => waiting ?? <None /> },
          { title: 'Held for', since: ({ since }) => since },
          { title: 'Refill', cell: ({ refilledAt }) => <Ago at={refilledAt} />, align: 'end', spare: 2 },
          ...namespaceColumns(rows, 1),
        ]}
        acts={({ namespace, name }) => (
          <Act act="reset-limit" params={{ namespace, name }} label="Reset" subject={name} />
        )}
        empty={
          search ? (
            <Empty title="No limit in use has a name that starts with this text." />
          ) : (
            <Empty
              title={searchedRows === null ? 'No limit is in use.' : 'No limit in use was found.'}
              code="await holdfast.limits.with(`export:${userId}`, { max: 1 }, async () => { … })"
            >
              A limit appears here while at least one of its permits is in use.
            </Empty>
          )
        }
      >
        {limits.data?.isMore && (
          <p class="table-foot muted small">More limits exist. Search for the beginning of a name.</p>
        )}
        {searchedRows !== null && (
          <p class="table-foot muted small">
            Only the first {formatNumber(searchedRows)} limits of each kind were searched. Other limits may be in use.
          </p>
        )}
      </TablePanel>
    </Page>
  )
}

/** A full limit is normal. It is only a problem while calls wait for it. */
function toneOfLimit(state: string, waiting: number | null): Tone {
  return state === 'full' ? (waiting ? 'warn' : 'busy') : toneOf(state)
}

const keyOf = ({ key, kind }: Row) => `${kind} ${key}`
