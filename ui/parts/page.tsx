import type { ComponentChildren } from 'preact'
import { pages, useRoute } from '../routes.js'

/** Layout of a page with a title, tools such as a search field, and panels. */
export function Page({
  tools,
  children,
}: {
  readonly tools?: ComponentChildren
  readonly children: ComponentChildren
}) {
  const { page } = useRoute()
  return (
    <div class="stack">
      <header class="page-head row">
        <h1>{pages.find(({ id }) => id === page)!.title}</h1>
        {tools && <div class="page-tools row end">{tools}</div>}
      </header>
      {children}
    </div>
  )
}
