import './sql.css'
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, api } from '../api.js'
import type { StatementList } from '../wire.js'
import { Copy } from './copy.js'
import { Dialog } from './dialog.js'
import { Notice } from './state.js'

interface SqlProps {
  readonly title: string
  /** `jobs?search=mail` */
  readonly view: string
  readonly onClose: () => void
}

/** Dialog with a view's SQL statements. The statements include their values, so they can be pasted into psql. */
export function Sql({ title, view, onClose }: SqlProps) {
  const [statements, setStatements] = useState<StatementList['statements']>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    api.sql(view).then(setStatements, setError)
  }, [view])
  return (
    <Dialog title={`SQL of ${title}`} kind="wide" onClose={onClose}>
      <p class="muted">The statements of this panel, with all values. They only read. Paste them into psql.</p>
      {error && <Notice tone="bad">{error.message}</Notice>}
      {!error && !statements && <p class="muted">Loading …</p>}
      {statements && statements.length > 1 && (
        <div>
          <Copy subject="all statements" label="Copy all" text={statements.map(({ text }) => text).join('\n\n')} />
        </div>
      )}
      {statements?.map(({ purpose, text }, at) => (
        <Statement key={`${at} ${purpose}`} purpose={purpose} text={text} />
      ))}
    </Dialog>
  )
}

export function Statement({ purpose, text }: { readonly purpose: string; readonly text: string }) {
  return (
    <section class="sql card">
      <header class="sql-head between">
        <h3>{purpose}</h3>
        <Copy subject={`the statement: ${purpose}`} label="Copy" text={text} />
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll this area */}
      <pre tabIndex={0}>{text.trim()}</pre>
    </section>
  )
}
