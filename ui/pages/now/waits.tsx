import './waits.css'
import { useState } from 'preact/hooks'
import { WaitGraph } from '../../graphics/wait-graph.js'
import type { LiveView } from '../../live.js'
import { Empty } from '../../parts/empty.js'
import { Name } from '../../parts/name.js'
import { Notice } from '../../parts/notice.js'
import { Panel } from '../../parts/panel.js'
import { Table } from '../../parts/table.js'
import { Age, None } from '../../parts/time.js'
import { useNarrow } from '../../use-narrow.js'
import { holdText, nameLabel, type WaitGraphData } from './labels.js'
import { ParticipantMark } from './participant-mark.js'
import { SelectionDetails } from './selection-details.js'

/** Who waits for whom: as sentences, drawn, and what can be done about it. */
export function WaitPanel({ graph }: { readonly graph: LiveView<WaitGraphData> }) {
  const [selected, setSelected] = useState<string>()
  const isNarrow = useNarrow()
  const waits = graph.data
  const isCalm = waits !== undefined && waits.names.length === 0
  const all = waits ? [...waits.participants, ...waits.names] : []
  // What was chosen may have let go; then whoever is most in the way is shown.
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
        <Empty title="Nobody waits for anybody.">
          When somebody does, it is drawn here: over locks, leases, limits, lanes and jobs, whoever is in the way first.
        </Empty>
      )}
      {waits && !isCalm && (
        <div class="stack">
          <WaitSentences waits={waits} at={graph.at} />
          <WaitGraph waits={waits} at={graph.at} selected={shown} onSelect={setSelected} isUpright={isNarrow} />
          {waits.isPartial && <p class="muted small">There is more than is drawn here.</p>}
          {shown && <SelectionDetails waits={waits} id={shown} at={graph.at} onSelect={setSelected} />}
        </div>
      )}
    </Panel>
  )
}

const maxListed = 3

/** What matters most, in words: every circle, and who else is in the way. */
function WaitSentences({ waits, at }: { readonly waits: WaitGraphData; readonly at: string | undefined }) {
  const who = (id: string) => <ParticipantMark waits={waits} id={id} />
  const what = (id: string) => <Name text={nameLabel(waits.names.find((name) => name.id === id)!)} />
  const inCycle = new Set(waits.cycles.flatMap(({ sides }) => sides.map(({ participant }) => participant)))
  const roots = waits.roots.filter(({ participant }) => !inCycle.has(participant))
  return (
    <div class="stack waits-said" role="status">
      {waits.cycles.slice(0, maxListed).map(({ isCertain, sides }) => (
        <Notice key={sides[0]!.participant} tone={isCertain ? 'bad' : 'warn'}>
          <p>
            <strong>{isCertain ? 'Deadlock.' : 'This may be a deadlock.'}</strong>{' '}
            {isCertain
              ? 'Each waits for what the next one has; the youngest wait is ended in some seconds where that can be done.'
              : 'Each waits for what the next one has. If it is one call that has and waits, nobody goes on by themselves.'}
          </p>
          <ul class="waits-sides">
            {sides.map(({ participant, holds, waitsFor }) => (
              <li key={`${participant} ${holds}`}>
                {who(participant)} has {what(holds)} and waits for {what(waitsFor)}
              </li>
            ))}
          </ul>
        </Notice>
      ))}
      {roots.slice(0, maxListed).map(({ participant, blocks }) => {
        const mine = waits.names.flatMap((name) =>
          name.holders.filter((holding) => holding.participant === participant).map((holding) => ({ name, holding })),
        )
        return (
          <p key={participant}>
            {who(participant)}{' '}
            {mine.length === 0
              ? 'stands first in line'
              : mine.slice(0, maxListed).map(({ name, holding }, place) => (
                  <span key={name.id}>
                    {place > 0 ? ', ' : 'has '}
                    <Name text={nameLabel(name)} /> ({holdText(holding)}
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

/** The same as trees: below each who is in the way what they have, and below it who waits for it. */
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
      return `${holding ? holdText(holding) : 'first in line'}${row.isRepeated ? ', who waits is told elsewhere' : ''}`
    }
    const circle = cycleOf(row.participant)
    const part = circle ? (circle.isCertain ? ', in a deadlock' : ', perhaps in a deadlock') : ''
    return `${row.name === null ? 'is in the way' : 'waits'}${part}${row.isRepeated ? ', told elsewhere' : ''}`
  }
  return (
    <Table
      label="Who waits for whom"
      rows={rows}
      keyOf={({ place }) => String(place)}
      columns={[
        {
          title: 'Who, and what',
          wide: true,
          cell: ({ depth, has, participant, drawn }) => (
            <span class="tree-cell" style={{ paddingInlineStart: `${depth * 18}px` }}>
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
            return forMs === undefined || forMs === null ? <None text="not known" /> : <Age ms={forMs} from={at} />
          },
        },
      ]}
      empty={null}
    />
  )
}
