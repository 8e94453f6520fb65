import { hrefOfQueue } from '../routes.js'
import { Name } from './name.js'

interface QueueNameProps {
  /** Null if only the key is known. A search needs the name. */
  readonly name: string | null
  readonly queueKey: string
  readonly maxLength?: number | undefined
}

/** Name of a queue, as a link to its jobs. */
export function QueueName({ name, queueKey, maxLength }: QueueNameProps) {
  if (name === null) return <span class="mono">key {queueKey}</span>
  return <Name text={name} maxLength={maxLength} href={hrefOfQueue(name)} />
}
