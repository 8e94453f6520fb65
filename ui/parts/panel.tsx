import './panel.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { formatNumber } from '../format.js'
import type { Live } from '../live.js'
import { Icon } from './icons.js'
import { Notice } from './notice.js'
import { Sql } from './sql.js'
import { Ago } from './time.js'

export interface PanelProps {
  readonly title: string
  /** Of what there is, not of what is shown. */
  readonly count?: number | undefined
  /** One sentence below the title. */
  readonly says?: ComponentChildren
  /** What `useView` gave: whose SQL it is, and whether the picture is true. */
  readonly live: Live<unknown>
  /** The same as the graphic, as a table. `t` changes between them. */
  readonly twin?: ComponentChildren
  /** More to the right of the title: filters, an action. */
  readonly tools?: ComponentChildren
  /** False for what touches the edges, as tables do. Default true. */
  readonly padded?: boolean
  readonly children: ComponentChildren
}

interface Keys {
  readonly element: HTMLElement
  readonly sql: () => void
  readonly twin: (() => void) | undefined
}

const panels = new Set<{ readonly current: Keys | undefined }>()

/** What a key does to the panel in focus, or else to the first of the page that can do it. */
export function pressPanel(what: 'sql' | 'twin'): void {
  const able = [...panels].flatMap(({ current }) => (current?.[what] ? [current] : []))
  able.sort((a, b) => (a.element.compareDocumentPosition(b.element) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1))
  const chosen = able.find(({ element }) => element.contains(document.activeElement)) ?? able[0]
  chosen?.[what]?.()
}

/** A part of a page: what it is, how many, its SQL, and its table where it is a graphic. */
export function Panel({ title, count, says, live, twin, tools, padded = true, children }: PanelProps) {
  const [isTwin, setTwin] = useState(false)
  const [isSql, setSql] = useState(false)
  const section = useRef<HTMLElement>(null)
  const keys = useRef<Keys | undefined>(undefined)
  const id = useId()
  useEffect(() => {
    keys.current = {
      element: section.current!,
      sql: () => setSql(true),
      twin: twin === undefined ? undefined : () => setTwin((was) => !was),
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
              aria-pressed={isTwin}
              title="The same as a table (t)"
              onClick={() => setTwin(!isTwin)}
            >
              <Icon name="table" size={14} />
              Table
            </button>
          )}
          <button type="button" class="button bare mono" title="The SQL of this panel (q)" onClick={() => setSql(true)}>
            SQL<span class="unseen"> of {title}</span>
          </button>
        </div>
        {says && <p class="panel-says">{says}</p>}
      </header>
      {live.trouble && (
        <div class="panel-trouble">
          <Notice tone="bad">
            <p>{live.trouble.message}</p>
            <p class="muted small">
              {isKnown ? (
                <>
                  What you see was true <Ago at={live.troubleAt} />. It goes on by itself.
                </>
              ) : (
                (live.trouble.hint ?? 'It goes on by itself.')
              )}
            </p>
          </Notice>
        </div>
      )}
      {(isKnown || !live.trouble) && (
        <div class={padded && !isTwin ? 'panel-body padded' : 'panel-body'} aria-busy={!isKnown}>
          {!isKnown ? (
            <p class="panel-waiting muted">{live.stale ? 'No answer yet.' : 'Asking the database …'}</p>
          ) : isTwin ? (
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
