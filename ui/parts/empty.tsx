import './empty.css'
import type { ComponentChildren } from 'preact'
import { Copy } from './copy.js'

interface EmptyProps {
  readonly title: string
  readonly children?: ComponentChildren
  /** Line of code that creates the first entry. */
  readonly code?: string
}

/** Content of an empty panel, which describes what the panel would show and how to create the first entry. */
export function Empty({ title, children, code }: EmptyProps) {
  return (
    <div class="empty">
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
