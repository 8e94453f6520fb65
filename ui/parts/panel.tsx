import './panel.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { formatNumber } from '../format.js'
import type { LiveView } from '../live.js'
import { Copy } from './copy.js'
import { Icon } from './icons.js'
import { Sql } from './sql.js'
import { Notice } from './state.js'
import { Ago } from './time.js'

export interface PanelProps {
  readonly title: string
  /** Total number of entries, including entries that are not shown. */
  readonly count?: number | undefined
  /** One sentence below the title. */
  readonly description?: ComponentChildren
  /** Result of `useView`. The panel shows the SQL and the failures of this view. */
  readonly live: LiveView<unknown>
  /** The graphic's data as a table. The key `t` switches between the graphic and the table. */
  readonly table?: ComponentChildren
  /** Filters and actions, to the right of the title. */
  readonly tools?: ComponentChildren
  /** Whether the content has padding. False if the content extends to the edges, as tables do. The default is true. */
  readonly padded?: boolean
  readonly children: ComponentChildren
}

interface PanelKeys {
  readonly element: HTMLElement
  readonly sql: () => void
  readonly table: (() => void) | undefined
}

const panels = new Set<{ readonly current: PanelKeys | undefined }>()

/** Runs a shortcut's action on the focused panel, or else on the first panel that supports the action. */
export function pressPanel(action: 'sql' | 'table'): void {
  const candidates = [...panels].flatMap(({ current }) => (current?.[action] ? [current] : []))
  candidates.sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1))
  const chosen =
    candidates.find(({ element }) => element.contains(document.activeElement)) ??
    candidates.find(({ element }) => element.closest('dialog.side')) ??
    candidates[0]
  chosen?.[action]?.()
}

/** Section of a page, with a title, a count, the view's SQL and failures, and a table as alternative to a graphic. */
export function Panel({ title, count, description, live, table: twin, tools, padded = true, children }: PanelProps) {
  const [isTable, setTable] = useState(false)
  const [isSql, setSql] = useState(false)
  const section = useRef<HTMLElement>(null)
  const keys = useRef<PanelKeys | undefined>(undefined)
  const id = useId()
  useEffect(() => {
    keys.current = {
      element: section.current!,
      sql: () => setSql(true),
      table: twin === undefined ? undefined : () => setTable((was) => !was),
    }
  })
  useEffect(() => {
    panels.add(keys)
    return () => void panels.delete(keys)
  }, [])
  const isKnown = live.data !== undefined
  return (
    <section ref={section} class="panel card" aria-labelledby={id} data-stale={live.stale || undefined}>
      <header class="panel-head row">
        <h2 id={id}>
          {title}
          {isKnown && count !== undefined && <span class="count muted">{formatNumber(count)}</span>}
        </h2>
        <div class="panel-tools row">
          {tools}
          {twin !== undefined && (
            <button
              type="button"
              class="button bare"
              aria-pressed={isTable}
              title="Show as a table (t)"
              onClick={() => setTable(!isTable)}
            >
              <Icon name="table" size={14} />
              Table
            </button>
          )}
          <button type="button" class="button bare mono" title="SQL for this panel (q)" onClick={() => setSql(true)}>
            SQL<span class="visually-hidden"> of {title}</span>
          </button>
        </div>
        {description && <p class="panel-description muted small">{description}</p>}
      </header>
      {live.failure && (
        <div class="panel-failure">
          <Notice tone="bad">
            <p>{live.failure.message}</p>
            <p class="muted small">
              {isKnown ? (
                <>
                  Data as of <Ago at={live.failedAt} />. Updates resume automatically.
                </>
              ) : (
                (live.failure.hint ?? 'Updates resume automatically.')
              )}
            </p>
          </Notice>
        </div>
      )}
      {(isKnown || !live.failure) && (
        <div class={padded && !isTable ? 'panel-body padded' : 'panel-body'} aria-busy={!isKnown}>
          {!isKnown ? (
            <p class="panel-waiting muted">{live.stale ? 'No data yet.' : 'Loading …'}</p>
          ) : isTable ? (
            twin
          ) : (
            children
          )}
        </div>
      )}
      {isSql && <Sql title={title} view={live.key} onClose={() => setSql(false)} />}
    </section>
  )
}

interface EmptyProps {
  readonly title: string
  readonly children?: ComponentChildren
  /** Line of code that creates the first entry. */
  readonly code?: string
}

/** Content of an empty panel, which describes what the panel would show and how to create the first entry. */
export function Empty({ title, children, code }: EmptyProps) {
  return (
    <div class="empty stack tight">
      <p class="empty-title">{title}</p>
      {children && <div class="muted">{children}</div>}
      {code && (
        <div class="empty-code">
          <code>{code}</code>
          <Copy text={code} subject="the code" />
        </div>
      )}
    </div>
  )
}
