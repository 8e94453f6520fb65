import './proof.css'
import { useState } from 'preact/hooks'
import { formatNumber } from '../../format.js'
import type { LiveView } from '../../live.js'
import { Dialog } from '../../parts/dialog.js'
import { Panel } from '../../parts/panel.js'
import { Statement } from '../../parts/sql.js'
import { Notice, Shape, State, type Tone } from '../../parts/state.js'
import { Table } from '../../parts/table.js'
import { Ago } from '../../parts/time.js'
import type { ViewData } from '../../wire.js'

type Proven = ViewData<'proof'>
type Invariant = Proven['invariants'][number]

/** Holdfast's guarantees, checked against the database. A dialog shows a guarantee's violations and query. */
export function ProofPanel({ proof }: { readonly proof: LiveView<Proven> }) {
  const [opened, setOpened] = useState<number>()
  const [isUnfolded, setUnfolded] = useState(false)
  const invariants = proof.data?.invariants ?? []
  const tone = worstOf(invariants)
  // A violation is never hidden.
  const isShown = isUnfolded || tone === 'bad' || tone === 'warn'
  const one = invariants.find(({ number }) => number === opened)
  const open = ({ number }: Invariant) => setOpened(number)
  return (
    <Panel
      title="Guarantees"
      live={proof}
      description={
        proof.data && (
          <>
            Checked against the database <Ago at={proof.data.at} />, every 30 s while this page is open.
          </>
        )
      }
      table={isShown ? <ProofTable invariants={invariants} onOpen={open} /> : undefined}
      tools={
        (tone === 'good' || tone === 'quiet') && (
          <button type="button" class="button bare" aria-expanded={isUnfolded} onClick={() => setUnfolded(!isUnfolded)}>
            {isUnfolded ? 'Hide' : 'Show all'}
          </button>
        )
      }
    >
      {isShown ? (
        <ol class="proof">
          {invariants.map((invariant) => (
            <li key={invariant.number}>
              <button type="button" class={`proof-one ${toneOf(invariant)}`} onClick={() => open(invariant)}>
                <span class="proof-sign">
                  <Shape tone={toneOf(invariant)} />
                </span>
                <span class="proof-text">{invariant.text}</span>
                <span class="proof-count muted">{countText(invariant)}</span>
              </button>
            </li>
          ))}
        </ol>
      ) : (
        <p class="proof-summary">
          <Shape tone={tone} /> {summaryOf(invariants)}
        </p>
      )}
      {one && (
        <Dialog title={one.text} kind="wide" onClose={() => setOpened(undefined)}>
          <p>
            {countText(one)}. {one.violations === 0 && one.suspects === 0 && 'No violation found.'}
          </p>
          {one.facts.length > 0 && (
            <Notice tone="bad">
              <ul class="stack dense">
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
              {formatNumber(one.suspects)} possible violations. They count if the next check finds them again.
            </Notice>
          )}
          <Statement purpose="The query, ready for psql" text={`${one.sql};`} />
        </Dialog>
      )}
    </Panel>
  )
}

interface ProofTableProps {
  readonly invariants: readonly Invariant[]
  readonly onOpen: (one: Invariant) => void
}

function ProofTable({ invariants, onOpen }: ProofTableProps) {
  return (
    <Table
      label="Guarantees"
      rows={invariants}
      keyOf={({ number }) => String(number)}
      onOpen={onOpen}
      columns={[
        { title: 'Guarantee', cell: ({ number, text }) => `${number}. ${text}`, wide: true },
        { title: 'State', cell: (one) => <State word={stateText(one)} tone={toneOf(one)} /> },
        { title: 'Checked', cell: ({ checked, unit }) => `${formatNumber(checked)} ${unit}`, align: 'end' },
        { title: 'Violations', cell: ({ violations }) => formatNumber(violations), align: 'end' },
      ]}
      empty={null}
    />
  )
}

function toneOf({ checked, violations, suspects }: Invariant): Tone {
  if (violations > 0) return 'bad'
  if (suspects > 0) return 'warn'
  // A check without any facts proves nothing.
  return checked > 0 ? 'good' : 'quiet'
}

function worstOf(invariants: readonly Invariant[]): Tone {
  const found = invariants.map(toneOf)
  return (['bad', 'warn', 'good'] as const).find((tone) => found.includes(tone)) ?? 'quiet'
}

/** Describes guarantees without a violation in one line. */
function summaryOf(invariants: readonly Invariant[]): string {
  const checks = invariants.reduce((sum, { checked }) => sum + checked, 0)
  if (checks === 0) return 'Nothing to check yet.'
  return `All ${invariants.length} guarantees hold: ${formatNumber(checks)} facts checked, no violations.`
}

function stateText(one: Invariant): string {
  return { bad: 'broken', warn: 'checking again', good: 'OK', quiet: 'nothing to check' }[toneOf(one) as 'good']
}

function countText({ checked, unit, violations, suspects }: Invariant): string {
  const checkedText = `${formatNumber(checked)} ${unit} checked`
  if (violations > 0) return `${checkedText}, ${formatNumber(violations)} violations`
  return suspects > 0 ? `${checkedText}, ${formatNumber(suspects)} to be checked again` : checkedText
}
