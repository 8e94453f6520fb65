import './payload.css'
import { formatBytes, visible } from '../format.js'
import { Copy } from './copy.js'

interface PayloadProps {
  /** What `redact` has made of it. */
  readonly value: unknown
  readonly bytes: number | null
  /** False when it was too large to be read. */
  readonly isShown: boolean
  /** As in "Copy the input". */
  readonly subject: string
}

/** What somebody gave to Holdfast, as JSON. What is invisible in it is written out. */
export function Payload({ value, bytes, isShown, subject }: PayloadProps) {
  if (bytes === null) return <p class="payload-none muted">nothing</p>
  if (!isShown) return <p class="payload-none muted">{formatBytes(bytes)} of JSON: more than is shown here.</p>
  const text = JSON.stringify(value, null, 2) ?? 'nothing'
  return (
    <div class="payload-box">
      <Scrolled text={text} />
      <div class="payload-copy">
        <Copy text={text} subject={subject} />
      </div>
    </div>
  )
}

/** Lines of anybody's text, in a box that scrolls. */
export function Scrolled({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard
    <pre class="payload" tabIndex={0}>
      {text.split('\n').map((line) => `${visible(line)}\n`)}
    </pre>
  )
}
