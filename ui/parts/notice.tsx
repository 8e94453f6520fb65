import type { ComponentChildren } from 'preact'
import { Shape, type Tone } from './state.js'

/** A sentence that matters, with the shape and the colour of what it means. */
export function Notice({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`}>
      <Shape tone={tone} />
      <div>{children}</div>
    </div>
  )
}
