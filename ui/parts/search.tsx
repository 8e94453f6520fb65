import './search.css'
import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useShortcuts } from '../keyboard.js'
import { setParams, useRoute } from '../routes.js'
import { Icon } from './icons.js'

type SearchParam = 'search' | 'prefix'

export interface SearchText {
  readonly text: string
  readonly setText: (text: string) => void
  /** Text that the page currently searches for. Follows `text` after a short delay. */
  readonly searched: string
  readonly field: RefObject<HTMLInputElement | null>
}

const debounceMs = 200

/** Returns a search field's text, synchronized with one of the route's parameters. */
export function useSearchText(param: SearchParam = 'search'): SearchText {
  const given = useRoute().params[param] ?? ''
  const [text, setText] = useState(given)
  const [searched, setSearched] = useState(given)
  const typed = useRef(given)
  const field = useRef<HTMLInputElement>(null)
  useShortcuts([{ key: '/', text: 'Search', group: 'Everywhere', run: () => field.current?.select() }])
  // Updates the field after a link or the browser history has changed the URL.
  useEffect(() => {
    if (given !== typed.current) {
      setText(given)
      setSearched(given)
    }
    typed.current = given
  }, [given])
  useEffect(() => {
    if (text === typed.current && text === searched) return
    const timer = setTimeout(() => {
      typed.current = text
      setSearched(text)
      // The next page of one search is not a page of another search.
      setParams({ [param]: text, after: undefined })
    }, debounceMs)
    return () => clearTimeout(timer)
  }, [text, param])
  return { text, setText, searched, field }
}

interface SearchFieldProps {
  readonly search: SearchText
  readonly label: string
  readonly placeholder: string
  readonly describedBy?: string
  readonly onCaret?: (position: number) => void
}

/** Input field of a search. Esc clears the field. */
export function SearchField({ search, label, placeholder, describedBy, onCaret }: SearchFieldProps): ComponentChildren {
  const { text, setText, field } = search
  return (
    <>
      <Icon name="search" size={14} />
      <input
        ref={field}
        class="field"
        type="search"
        aria-label={label}
        aria-describedby={describedBy}
        placeholder={placeholder}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          onCaret?.(currentTarget.selectionStart ?? 0)
        }}
        onSelect={({ currentTarget }) => onCaret?.(currentTarget.selectionStart ?? 0)}
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
    </>
  )
}

interface SearchProps {
  /** Last part of the label, such as `jobs` in "Search jobs". */
  readonly subject: string
  readonly example: string
  /** Route parameter that stores the text. The default is `search`. */
  readonly param?: SearchParam
}

/** A page's search field. The URL contains the search text, so that a link to the results can be shared. */
export function Search({ subject, example, param }: SearchProps) {
  const label = `Search ${subject}`
  return (
    <search class="search">
      <SearchField search={useSearchText(param)} label={label} placeholder={`${label}: ${example}`} />
    </search>
  )
}
