import './sql.css'
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, api } from '../api.js'
import type { StatementList } from '../wire.js'
import { Copy } from './copy.js'
import { Dialog } from './dialog.js'
import { Notice } from './notice.js'

interface SqlProps {
  /** Whose SQL. */
  readonly title: string
  /** `jobs?search=mail` */
  readonly view: string
  readonly onClose: () => void
}

/** The statements that a view asks, with their values written in: ready for psql. */
export function Sql({ title, view, onClose }: SqlProps) {
  const [statements, setStatements] = useState<StatementList['statements']>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    api.sql(view).then(setStatements, setError)
  }, [view])
  return (
    <Dialog title={`SQL of ${title}`} kind="wide" onClose={onClose}>
      <p class="muted">
        This is what the database was asked for this picture, with all values written in. It only reads. Paste it into
        psql.
      </p>
      {error && <Notice tone="bad">{error.message}</Notice>}
      {!error && !statements && <p class="muted">Asking …</p>}
      {statements && statements.length > 1 && (
        <div>
          <Copy subject="all statements" label="Copy all" text={statements.map(({ text }) => text).join('\n\n')} />
        </div>
      )}
      {statements?.map(({ purpose, text }, at) => (
        <section key={`${at} ${purpose}`} class="sql">
          <header class="sql-head">
            <h3>{purpose}</h3>
            <Copy subject={`the statement: ${purpose}`} label="Copy" text={text} />
          </header>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard */}
          <pre tabIndex={0}>{text.trim()}</pre>
        </section>
      ))}
    </Dialog>
  )
}
