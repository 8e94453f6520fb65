import './payload.css'
import { formatBytes, visible } from '../format.js'
import { Copy } from './copy.js'

interface PayloadProps {
  /** Value after redaction. */
  readonly value: unknown
  readonly bytes: number | null
  /** Whether the value is shown. False if the value is too large. */
  readonly isShown: boolean
  /** Last part of the accessible name, such as `input` in "Copy the input". */
  readonly subject: string
}

/** Shows a JSON value that belongs to the application. Escapes invisible characters. */
export function Payload({ value, bytes, isShown, subject }: PayloadProps) {
  if (bytes === null) return <p class="padded-text muted">nothing</p>
  if (!isShown) return <p class="padded-text muted">{formatBytes(bytes)} of JSON, too large to show.</p>
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

/** Shows lines of untrusted text in a scrollable box. */
export function Scrolled({ text }: { readonly text: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll this area
    <pre class="payload" tabIndex={0}>
      {text.split('\n').map((line) => `${visible(line)}\n`)}
    </pre>
  )
}
