import { hrefOfQueue } from '../routes.js'
import { Name } from './name.js'

interface QueueNameProps {
  /** Name of the queue. Null if only the key is known, which a search cannot use. */
  readonly name: string | null
  readonly queueKey: string
  readonly maxLength?: number | undefined
}

/** Name of a queue, as a link to its jobs. */
export function QueueName({ name, queueKey, maxLength }: QueueNameProps) {
  if (name === null) return <span class="mono">key {queueKey}</span>
  return <Name text={name} maxLength={maxLength} href={hrefOfQueue(name)} />
}
