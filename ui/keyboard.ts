// One registry of what the keys do. The help sheet is made of it, so that it cannot forget one.
import { useEffect, useRef } from 'preact/hooks'

export interface Shortcut {
  /** As the browser names the key: `n`, `?`, `/`. */
  readonly key: string
  readonly text: string
  readonly group: 'Pages' | 'Everywhere' | 'In a panel' | 'In a table'
  /** What it does. Absent where the part itself listens, as tables do for arrows. */
  readonly run?: () => void
}

const shortcuts = new Map<object, readonly Shortcut[]>()

/** Registers shortcuts for as long as the component is there. The latest to register a key has it. */
export function useShortcuts(list: readonly Shortcut[]): void {
  const latest = useRef(list)
  latest.current = list
  useEffect(() => {
    const token = {}
    shortcuts.set(
      token,
      latest.current.map((one, at) => ({ ...one, ...(one.run && { run: () => latest.current[at]?.run?.() }) })),
    )
    return () => void shortcuts.delete(token)
  }, [])
}

/** All there are, each key once in each group. */
export function allShortcuts(): Shortcut[] {
  const found = new Map<string, Shortcut>()
  for (const list of shortcuts.values()) for (const one of list) found.set(`${one.group} ${one.key}`, one)
  return [...found.values()]
}

addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  // A dialog has the keys for itself, and so has whoever types.
  if (document.querySelector('dialog[open]') || isTyping(event.target)) return
  const found = [...shortcuts.values()].flat().findLast(({ key, run }) => run && key === event.key)
  if (!found) return
  event.preventDefault()
  found.run!()
})

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target.isContentEditable) return true
  if (target instanceof HTMLInputElement) return !['button', 'checkbox', 'radio', 'range'].includes(target.type)
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
}
