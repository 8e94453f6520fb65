import './empty.css'
import type { ComponentChildren } from 'preact'
import { Copy } from './copy.js'

interface EmptyProps {
  /** What would be here. */
  readonly title: string
  readonly children?: ComponentChildren
  /** The line that makes the first one. */
  readonly code?: string
}

/** Where there is nothing yet: says what would be here, and how it comes to be. */
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
