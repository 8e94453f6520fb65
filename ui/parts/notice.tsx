import type { ComponentChildren } from 'preact'
import { Shape, type Tone } from './state.js'

/** Important message with the shape and colour of the message's tone. */
export function Notice({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`}>
      <Shape tone={tone} />
      <div>{children}</div>
    </div>
  )
}
