import type { ComponentChildren } from 'preact'
import { useMe } from '../me.js'
import { pages, useRoute } from '../routes.js'
import { State } from './state.js'

/** Layout of a page with a title, tools such as a search field, and panels. */
export function Page({
  tools,
  children,
}: {
  readonly tools?: ComponentChildren
  readonly children: ComponentChildren
}) {
  const { page } = useRoute()
  const me = useMe()
  return (
    <div class="stack">
      <header class="page-head row">
        <h1>{pages.find(({ id }) => id === page)!.title}</h1>
        {me.rights.length === 0 && (
          <span class="small">
            <State
              tone="quiet"
              word={
                me.readOnly
                  ? 'Read only: this dashboard has no actions.'
                  : 'Read only: your account may not run actions.'
              }
            />
          </span>
        )}
        {tools && <div class="page-tools row end">{tools}</div>}
      </header>
      {children}
    </div>
  )
}
