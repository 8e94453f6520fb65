import './dialog.css'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Icon } from './icons.js'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  /** `wide` is for SQL and help. `side` is for a row's details, and places the dialog at the window's right edge. */
  readonly kind?: 'plain' | 'wide' | 'side'
  readonly children: ComponentChildren
}

/** Native modal dialog. The dialog keeps the focus inside, closes on Esc, and then returns the focus. */
export function Dialog({ title, onClose, kind = 'plain', children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  // Opens in the same turn as the rendering: between the two, a key that the user presses would have no dialog to close.
  useLayoutEffect(() => {
    // A row's details return the focus to the row, even if the keys have moved from the details of another row.
    const row = kind === 'side' ? document.querySelector('#content [data-opened]:not(dialog *)') : null
    const before = row?.querySelector('.fact-open') ?? row ?? document.activeElement
    const dialog = ref.current!
    dialog.showModal()
    return () => {
      dialog.close()
      // Returns the focus, because the browser does not do so when a dialog is removed from the document.
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  return (
    // A click on the backdrop closes the dialog. Keyboard users can press Esc or use the button.
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
      <div class="dialog-inside stack">
        <header class="dialog-head between">
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
