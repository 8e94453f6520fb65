// Registry of the keyboard shortcuts. The help dialog lists this registry.
import { useEffect, useRef, useState } from 'preact/hooks'
import { readSetting, writeSetting } from './settings.js'

export interface Shortcut {
  /**
   * The browser's name for the key, such as `?`; two keys that are pressed one after the other, such as `g j`; or
   * `Mod+k`, which is Ctrl-K, and Command-K on a Mac.
   */
  readonly key: string
  readonly text: string
  readonly group: 'Pages' | 'Everywhere' | 'In a panel' | 'In a table'
  /** Function that the key runs. Undefined if the component handles the key itself, as tables handle arrow keys. */
  readonly run?: () => void
}

const shortcuts = new Set<{ readonly current: readonly Shortcut[] }>()

/** Registers shortcuts while the component is mounted. The latest registration of a key takes precedence. */
export function useShortcuts(list: readonly Shortcut[]): void {
  const latest = useRef(list)
  latest.current = list
  useEffect(() => {
    shortcuts.add(latest)
    return () => void shortcuts.delete(latest)
  }, [])
}

/** Returns all shortcuts, with each key once per group. */
export function allShortcuts(): Shortcut[] {
  const found = new Map<string, Shortcut>()
  for (const { current } of shortcuts) for (const one of current) found.set(`${one.group} ${one.key}`, one)
  return [...found.values()]
}

const setting = 'keys'
let hasCharacterKeys = readSetting(setting) !== 'off'

/**
 * Returns whether shortcuts without a modifier key are on, and a function that switches them. Users with speech input
 * or tremor can trigger such keys by accident, so WCAG 2.1.4 requires a switch.
 */
export function useCharacterKeys(): readonly [boolean, (isOn: boolean) => void] {
  const [isOn, setOn] = useState(hasCharacterKeys)
  const change = (next: boolean) => {
    hasCharacterKeys = next
    writeSetting(setting, next ? 'on' : 'off')
    setOn(next)
  }
  return [isOn, change]
}

/** Time within which the second key of a sequence must follow. */
const sequenceMs = 1_500
let firstKey: { readonly key: string; readonly at: number } | undefined

addEventListener('keydown', (event) => {
  const isModified = event.ctrlKey || event.metaKey
  if (event.defaultPrevented || event.altKey || event.isComposing) return
  // Presses of Shift alone are part of the next key.
  if (event.key === 'Shift') return
  const before = firstKey !== undefined && event.timeStamp - firstKey.at < sequenceMs ? `${firstKey.key} ` : ''
  firstKey = undefined
  // A dialog receives all keys, except a row's details, which are a part of the page.
  if ([...document.querySelectorAll('dialog[open]')].at(-1)?.matches(':not(.side)')) return
  if (!isModified && (!hasCharacterKeys || isTyping(event.target))) return
  const all = [...shortcuts].flatMap(({ current }) => current).filter(({ run }) => run)
  const pressed = isModified ? `Mod+${event.key.toLowerCase()}` : before + event.key
  const found = all.findLast(({ key }) => key === pressed)
  if (found) {
    event.preventDefault()
    found.run!()
  } else if (!isModified && all.some(({ key }) => key.startsWith(`${event.key} `))) {
    event.preventDefault()
    firstKey = { key: event.key, at: event.timeStamp }
  }
})

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  if (target.isContentEditable) return true
  if (target instanceof HTMLInputElement) return !['button', 'checkbox', 'radio', 'range'].includes(target.type)
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
}
