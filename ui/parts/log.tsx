import './log.css'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { visible } from '../format.js'
import type { ViewData } from '../wire.js'
import { Copy } from './copy.js'

type Lines = NonNullable<ViewData<'job'>['job']>['log']

/** Lines that a handler has logged. While the last line is visible, the box follows new lines. */
export function Log({ lines }: { readonly lines: Lines }) {
  const box = useRef<HTMLOListElement>(null)
  const isAtEnd = useRef(true)
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current!.scrollTop = box.current!.scrollHeight
  }, [lines])
  const text = lines.map(({ at, text, data }) => [at, text, data].filter((part) => part !== null).join(' ')).join('\n')
  return (
    <div class="payload-box">
      <ol
        ref={box}
        class="log mono"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users must be able to scroll this area
        tabIndex={0}
        aria-label="Log lines"
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
          isAtEnd.current = scrollTop + clientHeight >= scrollHeight - 4
        }}
      >
        {lines.map(({ at, attempt, text, data }, index) => {
          const isNewAttempt = index > 0 && attempt !== lines[index - 1]!.attempt
          return (
            <li key={`${at} ${index}`} class={isNewAttempt ? 'log-attempt' : undefined}>
              {at && (
                <time class="muted" dateTime={at} title={`${at}${attempt ? `, attempt ${attempt}` : ''}`}>
                  {at.slice(11, 23)}
                </time>
              )}{' '}
              <bdi>{visible(text)}</bdi> {data !== null && <bdi class="muted">{visible(data)}</bdi>}
            </li>
          )
        })}
      </ol>
      <div class="payload-copy">
        <Copy text={text} subject="the log" />
      </div>
    </div>
  )
}
