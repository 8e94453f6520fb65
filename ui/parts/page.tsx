import type { ComponentChildren } from 'preact'
import { pages, useRoute } from '../routes.js'

/** The frame of a page: its title, what stands beside it, such as a search, and its panels. */
export function Page({
  tools,
  children,
}: {
  readonly tools?: ComponentChildren
  readonly children: ComponentChildren
}) {
  const { page } = useRoute()
  return (
    <div class="page">
      <header class="page-head">
        <h1>{pages.find(({ id }) => id === page)!.title}</h1>
        {tools && <div class="page-tools">{tools}</div>}
      </header>
      {children}
    </div>
  )
}
