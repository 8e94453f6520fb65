import './proof.css'
import { useState } from 'preact/hooks'
import { formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { Copy } from '../../parts/copy.js'
import { Dialog } from '../../parts/dialog.js'
import { Notice } from '../../parts/notice.js'
import { Panel } from '../../parts/panel.js'
import { Shape, State, type Tone } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

type Proven = ViewData<'proof'>
type Invariant = Proven['invariants'][number]

/** Whether what is promised is true, promise by promise. Each can be opened: what speaks against it, and the query. */
export function ProofPanel({ proof }: { readonly proof: LiveView<Proven> }) {
  const [opened, setOpened] = useState<number>()
  const invariants = proof.data?.invariants ?? []
  const one = invariants.find(({ number }) => number === opened)
  const open = ({ number }: Invariant) => setOpened(number)
  return (
    <Panel
      title="Proof"
      live={proof}
      description={
        proof.data && (
          <>
            What Holdfast promises, held against the database <Ago at={proof.data.at} />; every half minute while
            somebody looks.
          </>
        )
      }
      table={<ProofTable invariants={invariants} onOpen={open} />}
    >
      <ol class="proof">
        {invariants.map((invariant) => (
          <li key={invariant.number}>
            <button type="button" class={`proof-one ${toneOf(invariant)}`} onClick={() => open(invariant)}>
              <span class="proof-sign">
                <Shape tone={toneOf(invariant)} />
              </span>
              <span class="proof-text">{invariant.text}</span>
              <span class="proof-count">{countText(invariant)}</span>
            </button>
          </li>
        ))}
      </ol>
      {one && (
        <Dialog title={one.text} kind="wide" onClose={() => setOpened(undefined)}>
          <p>
            {countText(one)}. {one.violations === 0 && one.suspects === 0 && 'Nothing speaks against it.'}
          </p>
          {one.facts.length > 0 && (
            <Notice tone="bad">
              <ul class="proof-facts">
                {one.facts.map((fact) => (
                  <li key={fact}>
                    <bdi>{fact}</bdi>
                  </li>
                ))}
              </ul>
            </Notice>
          )}
          {one.suspects > 0 && (
            <Notice tone="warn">
              {formatNumber(one.suspects)} that may be repaired at this very moment: it counts if it is still there at
              the next look.
            </Notice>
          )}
          <section class="sql">
            <header class="sql-head">
              <h3>The query, ready for psql</h3>
              <Copy subject="the query" label="Copy" text={`${one.sql};`} />
            </header>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard */}
            <pre tabIndex={0}>{one.sql}</pre>
          </section>
        </Dialog>
      )}
    </Panel>
  )
}

function ProofTable({
  invariants,
  onOpen,
}: {
  readonly invariants: readonly Invariant[]
  readonly onOpen: (one: Invariant) => void
}) {
  return (
    <Table
      label="Promises"
      rows={invariants}
      keyOf={({ number }) => String(number)}
      onOpen={onOpen}
      columns={[
        { title: 'Promise', cell: ({ number, text }) => `${number}. ${text}`, wide: true },
        { title: 'State', cell: (one) => <State word={stateText(one)} tone={toneOf(one)} /> },
        { title: 'Checked', cell: ({ checked, unit }) => `${formatNumber(checked)} ${unit}`, align: 'end' },
        { title: 'Violations', cell: ({ violations }) => formatNumber(violations), align: 'end' },
      ]}
      empty={null}
    />
  )
}

function toneOf({ violations, suspects }: Invariant): Tone {
  return violations > 0 ? 'bad' : suspects > 0 ? 'warn' : 'good'
}

function stateText({ violations, suspects }: Invariant): string {
  return violations > 0 ? 'broken' : suspects > 0 ? 'looked at again' : 'kept'
}

function countText({ checked, unit, violations, suspects }: Invariant): string {
  const checkedText = `${formatNumber(checked)} ${unit} checked`
  if (violations > 0) return `${checkedText}, ${formatNumber(violations)} against it`
  return suspects > 0 ? `${checkedText}, ${formatNumber(suspects)} looked at again` : checkedText
}
