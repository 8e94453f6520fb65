import './deliveries/deliveries.css'
import { formatNumber } from '../format.js'
import { useView } from '../live.js'
import { Empty } from '../parts/empty.js'
import { OwnerMark } from '../parts/instance-mark.js'
import { Name } from '../parts/name.js'
import { Page } from '../parts/page.js'
import { Panel } from '../parts/panel.js'
import { Search } from '../parts/search.js'
import { State } from '../parts/state.js'
import { Table } from '../parts/table.js'
import { Ago, Elapsed, None } from '../parts/time.js'
import { setParams, useParams } from '../routes.js'
import { durationText, OneDelivery } from './deliveries/one-delivery.js'

const states = ['in-flight', 'lost', 'done', 'failed'] as const
type StateWord = (typeof states)[number]

/** What had its effect once, by key: the latest, or those whose keys begin alike. */
export function Deliveries() {
  const { namespace, prefix, state, of, key } = useParams<'deliveries'>()
  const only = states.find((one) => one === state)
  const live = useView('deliveries', { namespace, prefix, state: only })
  const { rows = [], hasMore, searchedRows } = live.data ?? {}
  const caption = hasMore
    ? `${prefix ? 'The first' : 'The latest'} ${rows.length}; there are more.`
    : searchedRows
      ? `These were found among the ${prefix ? 'first' : 'latest'} ${formatNumber(searchedRows)}. There may be more.`
      : undefined
  const isSearched = Boolean(prefix || only)
  return (
    <Page tools={<Search subject="deliveries" example="stripe:" param="prefix" />}>
      {of && key && <OneDelivery key={`${of} ${key}`} namespace={of} deliveryKey={key} />}
      <Panel
        title="Deliveries"
        live={live}
        count={hasMore || searchedRows ? undefined : live.data && rows.length}
        description={caption}
        padded={false}
        tools={<StateFilter chosen={only} />}
      >
        <Table
          label="Deliveries"
          rows={rows}
          keyOf={idOf}
          opened={of && key ? idOf({ namespace: of, key }) : undefined}
          onOpen={(row) => setParams({ of: row.namespace, key: row.key }, 'push')}
          columns={[
            { title: 'Key', cell: ({ key: text }) => <Name text={text} />, sort: ({ key: text }) => text, wide: true },
            { title: 'State', cell: ({ state: is }) => <State word={is} />, sort: ({ state: is }) => is },
            { title: 'Run by', cell: (row) => <OwnerMark owner={row} />, spare: 2 },
            {
              title: 'When',
              cell: ({ startedAt, finishedAt }) => (finishedAt ? <Ago at={finishedAt} /> : <Elapsed at={startedAt} />),
              sort: ({ startedAt, finishedAt }) => Date.parse(finishedAt ?? startedAt),
              align: 'end',
            },
            {
              title: 'Took',
              cell: ({ startedAt, finishedAt }) =>
                finishedAt ? durationText(startedAt, finishedAt) : <None text="not over" />,
              sort: ({ startedAt, finishedAt }) => finishedAt && Date.parse(finishedAt) - Date.parse(startedAt),
              align: 'end',
              spare: 2,
            },
            {
              title: 'Forgotten',
              cell: ({ expiresAt, state: is }) =>
                is === 'in-flight' || is === 'lost' ? <None text="not before it has ended" /> : <Ago at={expiresAt} />,
              sort: ({ expiresAt }) => expiresAt,
              align: 'end',
              spare: 1,
            },
            { title: 'Namespace', cell: ({ namespace: name }) => <bdi>{name}</bdi>, spare: 1 },
          ]}
          empty={
            isSearched ? (
              <Empty title="No delivery was found.">
                {searchedRows
                  ? `Only the ${prefix ? 'first' : 'latest'} ${formatNumber(searchedRows)} were looked at.`
                  : 'Keys are searched by how they begin.'}
              </Empty>
            ) : (
              <Empty
                title="Nothing has been delivered yet."
                code="await holdfast.once.run(`stripe:${event.id}`, async ({ tx }) => { … })"
              >
                Each key has its effect once; who comes again gets the first answer.
              </Empty>
            )
          }
        />
      </Panel>
    </Page>
  )
}

const idOf = ({ namespace, key }: { readonly namespace: string; readonly key: string }) =>
  JSON.stringify([namespace, key])

function StateFilter({ chosen }: { readonly chosen: StateWord | undefined }) {
  return (
    <select
      class="field states-field"
      aria-label="State"
      value={chosen ?? ''}
      onChange={({ currentTarget }) => setParams({ state: currentTarget.value })}
    >
      <option value="">All states</option>
      {states.map((state) => (
        <option key={state} value={state}>
          {state}
        </option>
      ))}
    </select>
  )
}
