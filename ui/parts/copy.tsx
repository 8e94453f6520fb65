import { useEffect, useState } from 'preact/hooks'
import { Icon } from './icons.js'
import { toast } from './toast.js'

const shownMs = 1_500

interface CopyProps {
  readonly text: string
  /** Last part of the accessible name, such as `name` in "Copy the name". */
  readonly subject: string
  /** Visible text next to the icon. */
  readonly label?: string
}

export function Copy({ text, subject, label }: CopyProps) {
  const [done, setDone] = useState(false)
  useEffect(() => {
    if (!done) return
    const timer = setTimeout(() => setDone(false), shownMs)
    return () => clearTimeout(timer)
  }, [done])
  const copy = async () => {
    if (await toClipboard(text)) setDone(true)
    else toast({ tone: 'bad', text: 'The browser does not allow this page to copy text.' })
  }
  return (
    <button type="button" class={label ? 'button' : 'button bare'} aria-label={`Copy ${subject}`} onClick={copy}>
      <Icon name={done ? 'check' : 'copy'} size={14} />
      {label && (done ? 'Copied' : label)}
      <span class="visually-hidden" role="status">
        {done ? 'Copied' : ''}
      </span>
    </button>
  )
}

async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    // Without TLS, only the old clipboard API is available. This API copies the current selection.
    const field = document.createElement('textarea')
    field.value = text
    field.className = 'visually-hidden'
    const place = document.querySelector('dialog[open]') ?? document.body
    place.append(field)
    field.select()
    const copied = document.execCommand('copy')
    field.remove()
    return copied
  }
}
