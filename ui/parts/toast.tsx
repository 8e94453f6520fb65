import './toast.css'
import { useEffect, useState } from 'preact/hooks'
import { Icon } from './icons.js'
import { Shape, type Tone } from './state.js'

interface Note {
  readonly tone: Tone
  readonly says: string
  readonly hint?: string | undefined
}

interface Shown extends Note {
  readonly id: number
}

const shownMs = 8_000
const most = 3
let notes: readonly Shown[] = []
let lastId = 0
let told: (() => void) | undefined

/** Says something for a while. What went wrong stays until it is closed. */
export function toast(note: Note): void {
  lastId += 1
  const id = lastId
  notes = [...notes, { ...note, id }].slice(-most)
  told?.()
  if (note.tone !== 'bad') setTimeout(() => close(id), shownMs)
}

function close(id: number): void {
  notes = notes.filter((note) => note.id !== id)
  told?.()
}

/** Where notes appear: once in the app. */
export function Toasts() {
  const [shown, setShown] = useState(notes)
  useEffect(() => {
    told = () => setShown(notes)
    return () => {
      told = undefined
    }
  }, [])
  return (
    <section class="toasts" aria-label="Messages">
      <div role="status" class="stack">
        {shown.map(({ id, tone, says, hint }) => (
          <div key={id} class="toast">
            <Shape tone={tone} />
            <div>
              <p>{says}</p>
              {hint && <p class="muted small">{hint}</p>}
            </div>
            <button type="button" class="button bare" aria-label="Close the message" onClick={() => close(id)}>
              <Icon name="close" size={12} />
            </button>
          </div>
        ))}
      </div>
    </section>
  )
}
