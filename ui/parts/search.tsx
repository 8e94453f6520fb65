import './search.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useShortcuts } from '../keyboard.js'
import { setParams, useRoute } from '../routes.js'
import { Icon } from './icons.js'

interface SearchProps {
  /** What is searched, as in "Search jobs". */
  readonly subject: string
  /** An example of what may be written. */
  readonly example?: string
  /** The param of the route that keeps it. Default `search`. */
  readonly param?: 'search' | 'prefix'
}

/** What is typed is asked for once it has stood for so long. */
const debounceMs = 200

/** The search of a page. What is searched stands in the address, so that it can be passed on. */
export function Search({ subject, example, param = 'search' }: SearchProps) {
  const given = useRoute().params[param] ?? ''
  const [text, setText] = useState(given)
  const typed = useRef(given)
  const field = useRef<HTMLInputElement>(null)
  useShortcuts([{ key: '/', text: 'Search', group: 'Everywhere', run: () => field.current?.select() }])
  // Somebody went back, or followed a link.
  useEffect(() => {
    if (given !== typed.current) setText(given)
    typed.current = given
  }, [given])
  useEffect(() => {
    if (text === typed.current) return
    const timer = setTimeout(() => {
      typed.current = text
      setParams({ [param]: text })
    }, debounceMs)
    return () => clearTimeout(timer)
  }, [text, param])
  return (
    <search class="search">
      <Icon name="search" size={14} />
      <input
        ref={field}
        class="field"
        type="search"
        aria-label={`Search ${subject}`}
        placeholder={example ? `Search ${subject}: ${example}` : `Search ${subject}`}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Escape') return
          event.preventDefault()
          if (text === '') field.current?.blur()
          else setText('')
        }}
      />
      <span class="key" aria-hidden="true">
        /
      </span>
    </search>
  )
}
