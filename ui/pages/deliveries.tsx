import { formatNumber } from '../format.js'
import { useView } from '../live.js'
import { Choice } from '../parts/choice.js'
import { namespaceColumns } from '../parts/columns.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { Page } from '../parts/page.js'
import { Empty } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { wordOf } from '../parts/state.js'
import { Pager, TablePanel } from '../parts/table.js'
import { Ago, Elapsed, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import { durationText, OneDelivery } from './deliveries/one-delivery.js'

const states = ['in-flight', 'lost', 'done', 'failed'] as const

/** Page with the latest deliveries, or with the deliveries whose keys start with the search text. */
export function Deliveries() {
  const { namespace, prefix, state, of, key, after } = useParams<'deliveries'>()
  const only = states.find((one) => one === state)
  const live = useView('deliveries', { namespace, prefix, state: only, after })
  const { rows = [], next, searchedRows } = live.data ?? {}
  const caption = searchedRows
    ? `This page covers ${formatNumber(searchedRows)} deliveries. The next page continues the search.`
    : undefined
  const isSearched = Boolean(prefix || only)
  return (
    <Page tools={<Search subject="deliveries" example="stripe:" param="prefix" />}>
      {of && key && <OneDelivery key={`${of} ${key}`} namespace={of} deliveryKey={key} />}
      <TablePanel
        title="Deliveries"
        live={live}
        count={next || after ? undefined : live.data && rows.length}
        description={caption}
        tools={
          <Choice
            label="State"
            value={only ?? ''}
            options={[['', 'All states'], ...states.map((one) => [one, wordOf(one)] as const)]}
            onChange={(one) => setParams({ state: one, after: undefined })}
          />
        }
        rows={rows}
        keyOf={idOf}
        opened={of && key ? idOf({ namespace: of, key }) : undefined}
        onOpen={(row) => setParams({ of: row.namespace, key: row.key }, 'push')}
        columns={[
          { title: 'Key', name: ({ key: text }) => text, wide: true },
          { title: 'State', state: ({ state: is }) => is },
          { title: 'Instance', cell: (row) => <OwnerMark owner={row} link={false} />, spare: 2 },
          {
            title: 'When',
            cell: ({ startedAt, finishedAt }) => (finishedAt ? <Ago at={finishedAt} /> : <Elapsed at={startedAt} />),
            sort: ({ startedAt, finishedAt }) => Date.parse(finishedAt ?? startedAt),
            align: 'end',
          },
          {
            title: 'Duration',
            cell: ({ startedAt, finishedAt }) =>
              finishedAt ? durationText(startedAt, finishedAt) : <None text="not finished" />,
            sort: ({ startedAt, finishedAt }) => finishedAt && Date.parse(finishedAt) - Date.parse(startedAt),
            align: 'end',
            spare: 2,
          },
          {
            title: 'Expires',
            cell: ({ expiresAt, state: is }) =>
              is === 'in-flight' || is === 'lost' ? <None text="not finished" /> : <Ago at={expiresAt} />,
            sort: ({ expiresAt }) => expiresAt,
            align: 'end',
            spare: 1,
          },
          ...namespaceColumns(rows, 1),
        ]}
        empty={
          isSearched ? (
            <Empty title="No delivery found.">
              {caption ?? 'The search text must match the beginning of the key.'}
            </Empty>
          ) : (
            <Empty
              title="No deliveries yet."
              code="await holdfast.once.run(`stripe:${event.id}`, async ({ tx }) => { … })"
            >
              Each key runs once. Duplicates receive the recorded result.
            </Empty>
          )
        }
      >
        <Pager next={next} after={after} />
      </TablePanel>
    </Page>
  )
}

const idOf = ({ namespace, key }: { readonly namespace: string; readonly key: string }) =>
  JSON.stringify([namespace, key])
