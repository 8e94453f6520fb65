import './toast.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { visible } from '../format.js'
import { Icon } from './icons.js'
import { Shape, type Tone } from './state.js'

interface ToastMessage {
  readonly tone: Tone
  readonly text: string
}

interface ShownToast extends ToastMessage {
  readonly id: number
}

const shownMs = 8_000
const maxToasts = 3
let shownToasts: readonly ShownToast[] = []
let lastId = 0
let onChange: (() => void) | undefined

/** Shows a message for 8 seconds. An error message stays until the visitor closes it. */
export function toast(note: ToastMessage): void {
  lastId += 1
  const id = lastId
  shownToasts = [...shownToasts, { ...note, id }].slice(-maxToasts)
  onChange?.()
  if (note.tone !== 'bad') setTimeout(() => close(id), shownMs)
}

function close(id: number): void {
  shownToasts = shownToasts.filter((note) => note.id !== id)
  onChange?.()
}

/** List of the current messages. The app renders this component once. */
export function Toasts() {
  const [shown, setShown] = useState(shownToasts)
  const section = useRef<HTMLElement>(null)
  useEffect(() => {
    onChange = () => setShown(shownToasts)
    return () => {
      onChange = undefined
    }
  }, [])
  // A popover is the only element that can appear above an open dialog. Showing it again moves it above a newer dialog.
  useEffect(() => {
    const popover = section.current!
    popover.hidePopover()
    if (shown.length > 0) popover.showPopover()
  }, [shown])
  return (
    <section ref={section} popover="manual" class="toasts" aria-label="Messages">
      <div role="status" class="stack">
        {shown.map(({ id, tone, text }) => (
          <div key={id} class="toast card">
            <Shape tone={tone} />
            <p>{visible(text)}</p>
            <button type="button" class="button bare" aria-label="Close the message" onClick={() => close(id)}>
              <Icon name="close" size={12} />
            </button>
          </div>
        ))}
      </div>
    </section>
  )
}
