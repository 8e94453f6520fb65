import './dialog.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { Icon } from './icons.js'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  /** `wide` for SQL and sheets, `side` for the details of a row: at the right edge, as high as the window. */
  readonly kind?: 'plain' | 'wide' | 'side'
  readonly children: ComponentChildren
}

/** A dialog of the browser's own: it keeps the focus inside, closes with Esc, and gives the focus back. */
export function Dialog({ title, onClose, kind = 'plain', children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  useEffect(() => {
    const before = document.activeElement
    const dialog = ref.current!
    dialog.showModal()
    return () => {
      dialog.close()
      // Taken out of the document, a dialog cannot do this itself.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    // The backdrop belongs to the dialog; whoever has no mouse has Esc and the button.
    // biome-ignore lint/a11y/useKeyWithClickEvents: see above
    <dialog
      ref={ref}
      class={`dialog ${kind}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={({ target }) => target === ref.current && onClose()}
    >
      <div class="dialog-inside">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <button type="button" class="button bare" aria-label="Close" onClick={onClose}>
            <Icon name="close" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  )
}
