import './search.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { UsageError } from '../../../src/base/errors.js'
import {
  jobSearchWords,
  jobWaits,
  readJobSearch,
  readSearch,
  searchableStates,
  writeSearchValue,
} from '../../../src/search/index.js'
import { useShortcuts } from '../../keyboard.js'
import { Icon } from '../../parts/icons.js'
import { setParams, useParams } from '../../routes.js'

const debounceMs = 250
const maxHints = 12

/** What is wrong with a search; undefined for nothing. */
export function parseMistake(text: string): UsageError | undefined {
  try {
    readJobSearch(text)
    return undefined
  } catch (error) {
    return error as UsageError
  }
}

interface Hint {
  /** What the term becomes. */
  readonly term: string
  readonly text: string
  /** Whether a value has still to be written. */
  readonly isTyped: boolean
}

interface JobSearchProps {
  readonly queues: readonly string[]
  readonly kinds: readonly string[]
}

/** The search for jobs: with hints of what may be written, and what is wrong where something is. */
export function JobSearch({ queues, kinds }: JobSearchProps) {
  const given = useParams<'jobs'>().search ?? ''
  const [text, setText] = useState(given)
  const [told, setTold] = useState(given)
  const [isOpen, setOpen] = useState(false)
  const [caret, setCaret] = useState(0)
  const typed = useRef(given)
  const box = useRef<HTMLElement>(null)
  const field = useRef<HTMLInputElement>(null)
  useShortcuts([{ key: '/', text: 'Search', group: 'Everywhere', run: () => field.current?.select() }])
  // Somebody went back, or followed a link.
  useEffect(() => {
    if (given !== typed.current) {
      setText(given)
      setTold(given)
    }
    typed.current = given
  }, [given])
  useEffect(() => {
    if (text === typed.current && text === told) return
    const timer = setTimeout(() => {
      typed.current = text
      setTold(text)
      setParams({ search: text })
    }, debounceMs)
    return () => clearTimeout(timer)
  }, [text])
  const hints = useMemo(() => hintsAt(text, caret, queues, kinds), [text, caret, queues, kinds])
  const mistake = told === text ? parseMistake(text) : undefined
  const take = ({ term, isTyped }: Hint) => {
    const { from, to } = termAt(text, caret)
    const end = isTyped ? '' : ' '
    const next = `${text.slice(0, from)}${term}${end}${text.slice(to).trimStart()}`
    setText(next)
    const at = from + term.length + end.length
    setCaret(at)
    if (!field.current) return
    // In the field at once, not when it is drawn: what somebody types meanwhile belongs behind it.
    field.current.value = next
    field.current.focus()
    field.current.setSelectionRange(at, at)
  }
  const moveTo = (step: number) => {
    const all = [field.current, ...(box.current?.querySelectorAll<HTMLElement>('.hint') ?? [])]
    const at = all.indexOf(document.activeElement as HTMLElement)
    all[Math.max(0, Math.min(all.length - 1, at + step))]?.focus()
  }
  return (
    <search
      ref={box}
      class="search job-search"
      onFocusCapture={() => setOpen(true)}
      onBlurCapture={({ relatedTarget }) => {
        if (!(relatedTarget instanceof Node && box.current?.contains(relatedTarget))) setOpen(false)
      }}
      onKeyDown={(event) => {
        if (event.key === 'ArrowDown') moveTo(1)
        else if (event.key === 'ArrowUp') moveTo(-1)
        else if (event.key === 'Escape' && event.target !== field.current) field.current?.focus()
        else return
        event.preventDefault()
      }}
    >
      <Icon name="search" size={14} />
      <input
        ref={field}
        class="field"
        type="search"
        aria-label="Search jobs"
        aria-describedby="job-search-message"
        placeholder="Search jobs: queue:mail state:failed input.user:42"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          setCaret(currentTarget.selectionStart ?? 0)
        }}
        onSelect={({ currentTarget }) => setCaret(currentTarget.selectionStart ?? 0)}
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
      {isOpen && hints.length > 0 && (
        <div class="hints">
          <p class="muted small" aria-hidden="true">
            ↓ to choose
          </p>
          <ul aria-label="What may be written">
            {hints.map((hint) => (
              <li key={hint.term}>
                <button type="button" class="hint" onClick={() => take(hint)}>
                  <code>
                    <bdi>{hint.term.length > 60 ? `${hint.term.slice(0, 60)}…` : hint.term}</bdi>
                  </code>
                  <span class="muted small">{hint.text}</span>
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
      <p id="job-search-message" class="search-mistake small" role="status">
        {mistake && (
          <>
            <Icon name="warn" size={13} /> {mistake.message}. {mistake.hint}
          </>
        )}
      </p>
    </search>
  )
}

/** The term that somebody writes at; one that is not whole goes up to the next space. */
function termAt(text: string, caret: number): { from: number; to: number } {
  try {
    const term = readSearch(text).find(({ from, to }) => from <= caret && caret <= to)
    return term ?? { from: caret, to: caret }
  } catch {
    const from = text.slice(0, caret).search(/\S*$/)
    return { from, to: caret + text.slice(caret).search(/\s|$/) }
  }
}

function hintsAt(text: string, caret: number, queues: readonly string[], kinds: readonly string[]): Hint[] {
  const { from } = termAt(text, caret)
  const typedTerm = text.slice(from, caret)
  const colon = typedTerm.indexOf(':')
  const of = (word: string, values: readonly string[]) =>
    values.map((value): Hint => ({ term: `${word}:${writeSearchValue(value)}`, text: '', isTyped: false }))
  const words = Object.entries(jobSearchWords).map(
    ([word, { text, example }]): Hint => ({
      term: word === 'input' ? 'input.' : `${word}:`,
      text: `${text}, as in ${example}`,
      isTyped: true,
    }),
  )
  const values: Readonly<Record<string, Hint[]>> = {
    state: of('state', searchableStates),
    waits: of('waits', jobWaits),
    queue: of('queue', queues),
    kind: of('kind', kinds),
  }
  const found = colon < 0 ? words : (values[typedTerm.slice(0, colon)] ?? [])
  const typed = typedTerm.replace(':"', ':').toLowerCase()
  const fits = ({ term }: Hint) => {
    const plain = term.replace(':"', ':').toLowerCase()
    return colon < 0 ? plain.startsWith(typed) : plain.includes(typed.slice(colon + 1)) && term !== typedTerm
  }
  return found.filter(fits).slice(0, maxHints)
}
