import './details.css'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useShortcuts } from '../keyboard.js'

interface DetailsProps {
  /** Of what, for those who do not see it. */
  readonly label: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}

/** All about one thing of a page, above the others. It takes the focus when it opens, closes with Esc, and gives the focus back. */
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
    <section ref={section} class="details" aria-label={label} tabIndex={-1}>
      {children}
    </section>
  )
}
