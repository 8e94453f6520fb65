// Registry of the keyboard shortcuts. The help dialog lists this registry.
import { useEffect, useRef } from 'preact/hooks'

export interface Shortcut {
  /** The browser's name for the key, such as `n`, `?` or `/`. */
  readonly key: string
  readonly text: string
  readonly group: 'Pages' | 'Everywhere' | 'In a panel' | 'In a table'
  /** Function that the key runs. Undefined if the component handles the key itself, as tables handle arrow keys. */
  readonly run?: () => void
}

const shortcuts = new Map<object, readonly Shortcut[]>()

/** Registers shortcuts while the component is mounted. The latest registration of a key takes precedence. */
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

/** Returns all shortcuts, with each key once per group. */
export function allShortcuts(): Shortcut[] {
  const found = new Map<string, Shortcut>()
  for (const list of shortcuts.values()) for (const one of list) found.set(`${one.group} ${one.key}`, one)
  return [...found.values()]
}

addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  // Shortcuts are disabled while a dialog is open or a text field has focus.
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
