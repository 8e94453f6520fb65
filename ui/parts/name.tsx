import { shorten, visible } from '../format.js'
import { hrefOfQueue } from '../routes.js'
import { Copy } from './copy.js'

interface NameProps {
  readonly text: string
  /** Maximum number of characters. The default is 44. */
  readonly maxLength?: number | undefined
  readonly href?: string
  /** Whether to add a button that copies the whole name. */
  readonly copy?: boolean
}

/** Name that a user chose. Shortens long names in the middle, isolates their text direction, and never renders HTML. */
export function Name({ text, maxLength = 44, href, copy }: NameProps) {
  const short = shorten(text, maxLength)
  const name = (
    <span class="name inline">
      <bdi class="mono" title={short === text ? undefined : visible(text)}>
        {short}
      </bdi>
      {copy && <Copy text={text} subject="the name" />}
    </span>
  )
  return href === undefined ? name : <a href={href}>{name}</a>
}

interface QueueNameProps {
  /** Name of the queue. Null if only the key is known, which a search cannot use. */
  readonly name: string | null
  readonly queueKey: string
  readonly maxLength?: number | undefined
  /** Database of the queue. The default is the current database. */
  readonly database?: string | undefined
}

/** Name of a queue, as a link to its jobs. */
export function QueueName({ name, queueKey, maxLength, database }: QueueNameProps) {
  if (name === null) return <span class="mono">key {queueKey}</span>
  return <Name text={name} maxLength={maxLength} href={hrefOfQueue(name, database)} />
}
