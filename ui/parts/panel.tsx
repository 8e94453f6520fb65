import './panel.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { formatNumber } from '../format.js'
import type { LiveView } from '../live.js'
import { Icon } from './icons.js'
import { Notice } from './notice.js'
import { Sql } from './sql.js'
import { Ago } from './time.js'

export interface PanelProps {
  readonly title: string
  /** Of what there is, not of what is shown. */
  readonly count?: number | undefined
  /** One sentence below the title. */
  readonly description?: ComponentChildren
  /** What `useView` gave: whose SQL it is, and whether the picture is true. */
  readonly live: LiveView<unknown>
  /** The same as the graphic, as a table. `t` changes between them. */
  readonly table?: ComponentChildren
  /** More to the right of the title: filters, an action. */
  readonly tools?: ComponentChildren
  /** False for what touches the edges, as tables do. Default true. */
  readonly padded?: boolean
  readonly children: ComponentChildren
}

interface PanelKeys {
  readonly element: HTMLElement
  readonly sql: () => void
  readonly table: (() => void) | undefined
}

const panels = new Set<{ readonly current: PanelKeys | undefined }>()

/** What a key does to the panel in focus, or else to the first of the page that can do it. */
export function pressPanel(action: 'sql' | 'table'): void {
  const candidates = [...panels].flatMap(({ current }) => (current?.[action] ? [current] : []))
  candidates.sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1))
  const chosen = candidates.find(({ element }) => element.contains(document.activeElement)) ?? candidates[0]
  chosen?.[action]?.()
}

/** A part of a page: what it is, how many, its SQL, and its table where it is a graphic. */
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
    <section ref={section} class="panel" aria-labelledby={id} data-stale={live.stale || undefined}>
      <header class="panel-head">
        <h2 id={id}>
          {title}
          {isKnown && count !== undefined && <span class="count">{formatNumber(count)}</span>}
        </h2>
        <div class="panel-tools">
          {tools}
          {twin !== undefined && (
            <button
              type="button"
              class="button bare"
              aria-pressed={isTable}
              title="The same as a table (t)"
              onClick={() => setTable(!isTable)}
            >
              <Icon name="table" size={14} />
              Table
            </button>
          )}
          <button type="button" class="button bare mono" title="The SQL of this panel (q)" onClick={() => setSql(true)}>
            SQL<span class="visually-hidden"> of {title}</span>
          </button>
        </div>
        {description && <p class="panel-description">{description}</p>}
      </header>
      {live.failure && (
        <div class="panel-failure">
          <Notice tone="bad">
            <p>{live.failure.message}</p>
            <p class="muted small">
              {isKnown ? (
                <>
                  What you see was true <Ago at={live.failedAt} />. It goes on by itself.
                </>
              ) : (
                (live.failure.hint ?? 'It goes on by itself.')
              )}
            </p>
          </Notice>
        </div>
      )}
      {(isKnown || !live.failure) && (
        <div class={padded && !isTable ? 'panel-body padded' : 'panel-body'} aria-busy={!isKnown}>
          {!isKnown ? (
            <p class="panel-waiting muted">{live.stale ? 'No answer yet.' : 'Asking the database …'}</p>
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
