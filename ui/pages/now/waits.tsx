import './waits.css'
import { useState } from 'preact/hooks'
import { WaitGraph } from '../../graphics/wait-graph.js'
import type { LiveView } from '../../live.js'
import { Name } from '../../parts/name.js'
import { Empty, Panel } from '../../parts/panel.js'
import { Notice, wordOf } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { Age, None } from '../../parts/time.js'
import { useNarrow } from '../../use-size.js'
import { holdText, nameLabel, type WaitGraphData } from './labels.js'
import { ParticipantMark } from './participant-mark.js'
import { SelectionDetails } from './selection-details.js'

export function WaitPanel({ graph }: { readonly graph: LiveView<WaitGraphData> }) {
  const [selected, setSelected] = useState<string>()
  const isNarrow = useNarrow()
  const waits = graph.data
  const isCalm = waits !== undefined && waits.names.length === 0
  const all = waits ? [...waits.participants, ...waits.names] : []
  // If the selected item is no longer in the graph, the page shows the largest blocker.
  const first = waits?.cycles[0]?.sides[0]?.participant ?? waits?.roots[0]?.participant
  const shown = all.some(({ id }) => id === selected) ? selected : first
  return (
    <Panel
      title="Who waits for whom"
      live={graph}
      count={isCalm ? undefined : waits?.calls}
      table={waits && !isCalm ? <WaitTree waits={waits} at={graph.at} /> : undefined}
    >
      {isCalm && (
        <Empty title="Nothing is blocked.">
          Calls that wait for locks, leases, limits, lanes, budgets or jobs appear here, with their blockers.
        </Empty>
      )}
      {waits && !isCalm && (
        <div class="stack">
          <WaitSentences waits={waits} at={graph.at} />
          <WaitGraph waits={waits} at={graph.at} selected={shown} onSelect={setSelected} isUpright={isNarrow} />
          {waits.isPartial && <p class="muted small">The graph shows only a part of the waits.</p>}
          {shown && <SelectionDetails waits={waits} id={shown} at={graph.at} onSelect={setSelected} />}
        </div>
      )}
    </Panel>
  )
}

const maxListed = 3

/** Sentences about the most important facts: deadlocks first, then other blockers. */
function WaitSentences({ waits, at }: { readonly waits: WaitGraphData; readonly at: string | undefined }) {
  const who = (id: string) => <ParticipantMark waits={waits} id={id} />
  const what = (id: string) => <Name text={nameLabel(waits.names.find((name) => name.id === id)!)} />
  const inCycle = new Set(waits.cycles.flatMap(({ sides }) => sides.map(({ participant }) => participant)))
  const roots = waits.roots.filter(({ participant }) => !inCycle.has(participant))
  return (
    <div class="stack tight wraps wait-sentences" role="status">
      {waits.cycles.slice(0, maxListed).map(({ isCertain, sides }) => (
        <Notice key={sides[0]!.participant} tone={isCertain ? 'bad' : 'warn'}>
          <p>
            <strong>{isCertain ? 'Deadlock.' : 'Possible deadlock.'}</strong>{' '}
            {isCertain
              ? 'Each participant is waiting for the next one. If possible, Holdfast ends the most recent wait after a few seconds.'
              : 'Each participant is waiting for the next one. This is a deadlock if each participant waits within the same work that holds its name.'}
          </p>
          <ul>
            {sides.map(({ participant, holds, waitsFor }) => (
              <li key={`${participant} ${holds}`}>
                {who(participant)} holds {what(holds)} and waits for {what(waitsFor)}
              </li>
            ))}
          </ul>
        </Notice>
      ))}
      {roots.slice(0, maxListed).map(({ participant, blocks }) => {
        const mine = waits.names.flatMap((name) =>
          name.holders.filter((holding) => holding.participant === participant).map((holding) => ({ name, holding })),
        )
        // A job that does not run blocks the jobs that depend on it.
        const job = waits.participants.find(({ id }) => id === participant)?.job
        return (
          <p key={participant}>
            {who(participant)}{' '}
            {mine.length === 0
              ? 'is first in the queue'
              : mine.slice(0, maxListed).map(({ name, holding }, place) => (
                  <span key={name.id}>
                    {place > 0 && ', '}
                    {job ? (
                      `is ${wordOf(job.state)}`
                    ) : (
                      <>
                        {holding.how === 'job' ? 'runs' : 'holds'} <Name text={nameLabel(name)} />
                      </>
                    )}{' '}
                    ({holding.how === 'job' ? 'for' : holdText(holding)}
                    {holding.forMs !== null && (
                      <>
                        {' '}
                        <Age ms={holding.forMs} from={at} />
                      </>
                    )}
                    )
                  </span>
                ))}
            , and{' '}
            <strong>
              {blocks === 0 ? 'its own calls wait' : blocks === 1 ? '1 other waits' : `${blocks} others wait`}
            </strong>{' '}
            because of it.
          </p>
        )
      })}
    </div>
  )
}

/** The wait graph as trees: below each blocker the names that it holds, below each name its waiting participants. */
function WaitTree({ waits, at }: { readonly waits: WaitGraphData; readonly at: string | undefined }) {
  const nameOf = (id: string | null) => waits.names.find((name) => name.id === id)
  const rows = waits.tree.map((row, place) => ({ ...row, place, drawn: nameOf(row.name) }))
  type Row = (typeof rows)[number]
  const holdingOf = ({ drawn, participant }: Row) => drawn?.holders.find((one) => one.participant === participant)
  const waitOf = ({ drawn, participant }: Row) => drawn?.waits.find((one) => one.participant === participant)
  const cycleOf = (id: string) => waits.cycles.find(({ sides }) => sides.some(({ participant }) => participant === id))
  const stateOf = (row: Row) => {
    if (row.has) {
      const holding = holdingOf(row)
      return `${holding ? holdText(holding) : 'first in the queue'}${row.isRepeated ? ', waiting calls shown elsewhere' : ''}`
    }
    const cycle = cycleOf(row.participant)
    const part = cycle ? (cycle.isCertain ? ', in a deadlock' : ', possibly in a deadlock') : ''
    return `${row.name === null ? 'blocks others' : 'waiting'}${part}${row.isRepeated ? ', shown elsewhere' : ''}`
  }
  return (
    <Table
      label="Who waits for whom"
      rows={rows}
      keyOf={({ place }) => String(place)}
      columns={[
        {
          title: 'Participant or name',
          wide: true,
          cell: ({ depth, has, participant, drawn }) => (
            <span class="inline" style={{ paddingInlineStart: `${depth * 18}px` }}>
              {depth > 0 && (
                <span class="muted" aria-hidden="true">
                  └
                </span>
              )}
              <span class="visually-hidden">Level {depth + 1}: </span>
              {has ? <Name text={drawn ? nameLabel(drawn) : ''} /> : <ParticipantMark waits={waits} id={participant} />}
            </span>
          ),
        },
        { title: 'State', cell: stateOf },
        {
          title: 'For',
          align: 'end',
          cell: (row) => {
            const forMs = row.has ? holdingOf(row)?.forMs : waitOf(row)?.forMs
            return forMs === undefined || forMs === null ? <None text="unknown" /> : <Age ms={forMs} from={at} />
          },
        },
      ]}
      empty={null}
    />
  )
}
