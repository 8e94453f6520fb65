import './details.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useShortcuts } from '../keyboard.js'

interface DetailsProps {
  /** Accessible name. */
  readonly label: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}

/** Details of one row, shown above the list. The details take the focus. Esc closes them and returns the focus. */
export function Details({ label, onClose, children }: DetailsProps) {
  const section = useRef<HTMLElement>(null)
  useShortcuts([{ key: 'Escape', text: 'Close the details', group: 'Everywhere', run: onClose }])
  useEffect(() => {
    const before = document.activeElement
    section.current?.focus({ preventScroll: true })
    section.current?.scrollIntoView({ block: 'start' })
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [label])
  return (
    <section ref={section} class="details stack" aria-label={label} tabIndex={-1}>
      {children}
    </section>
  )
}

export function CloseButton({ onClose }: { readonly onClose: () => void }) {
  return (
    <button type="button" class="button bare" onClick={onClose}>
      Close
    </button>
  )
}
