import { shorten, visible } from '../format.js'
import { Copy } from './copy.js'

interface NameProps {
  readonly text: string
  /** How many characters at most. Default 44. */
  readonly maxLength?: number | undefined
  /** With a button that copies the whole. */
  readonly copy?: boolean
}

/** What somebody named: cut in the middle, apart from the direction of the text around it, and never HTML. */
export function Name({ text, maxLength = 44, copy }: NameProps) {
  const short = shorten(text, maxLength)
  return (
    <span class="name">
      <bdi class="mono" title={short === text ? undefined : visible(text)}>
        {short}
      </bdi>
      {copy && <Copy text={text} subject="the name" />}
    </span>
  )
}
