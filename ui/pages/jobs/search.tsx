import './search.css'
import { useMemo, useRef, useState } from 'preact/hooks'
import type { UsageError } from '../../../src/base/errors.js'
import { jobSearchWords, readJobSearch, readSearch, searchStates, writeSearchValue } from '../../../src/search/index.js'
import { cut } from '../../format.js'
import { Icon } from '../../parts/icons.js'
import { SearchField, useSearchText } from '../../parts/search.js'

const maxHints = 12
const periods = ['10m', '1h', '24h', '7d']

/** Returns the error in a search text, or undefined if the text is valid. */
export function parseMistake(text: string): UsageError | undefined {
  try {
    readJobSearch(text)
    return undefined
  } catch (error) {
    return error as UsageError
  }
}

interface Hint {
  /** Text that replaces the current term. */
  readonly term: string
  readonly text: string
  /** Whether the visitor must still type a value for the term. */
  readonly isTyped: boolean
}

interface JobSearchProps {
  readonly queues: readonly string[]
  readonly kinds: readonly string[]
}

/** Search field for jobs, with suggestions and error messages. */
export function JobSearch({ queues, kinds }: JobSearchProps) {
  const search = useSearchText()
  const { text, setText, searched, field } = search
  const [isOpen, setOpen] = useState(false)
  const [caret, setCaret] = useState(0)
  const box = useRef<HTMLElement>(null)
  const hints = useMemo(() => hintsAt(text, caret, queues, kinds), [text, caret, queues, kinds])
  const mistake = searched === text ? parseMistake(text) : undefined
  const apply = ({ term, isTyped }: Hint) => {
    const { from, to } = termAt(text, caret)
    const end = isTyped ? '' : ' '
    const next = `${text.slice(0, from)}${term}${end}${text.slice(to).trimStart()}`
    setText(next)
    const at = from + term.length + end.length
    setCaret(at)
    if (!field.current) return
    // Changes the field before the next rendering, so that characters typed in the meantime follow the suggestion.
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
      <SearchField
        search={search}
        label="Search jobs"
        describedBy="job-search-message"
        placeholder="Search jobs: timeout queue:mail since:1h input.user:42"
        onCaret={setCaret}
      />
      {isOpen && hints.length > 0 && (
        <div class="hints card">
          <p class="muted small" aria-hidden="true">
            ↓ selects a suggestion
          </p>
          <ul aria-label="Suggestions">
            {hints.map((hint) => (
              <li key={hint.term}>
                <button type="button" class="hint wraps hovers" onClick={() => apply(hint)}>
                  <code>
                    <bdi>{cut(hint.term, 60)}</bdi>
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

/** Returns the range of the term at the caret. An incomplete term extends to the next space. */
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
      term: word === 'input' || word === 'meta' ? `${word}.` : `${word}:`,
      text: `${text}, for example ${example}`,
      isTyped: true,
    }),
  )
  const values: Readonly<Record<string, Hint[]>> = {
    state: of('state', searchStates),
    since: of('since', periods),
    until: of('until', periods),
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
