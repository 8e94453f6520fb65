import { hrefOfQueue } from '../routes.js'
import { Name } from './name.js'

interface QueueNameProps {
  /** Null where only the key is known: then there is nothing that could be searched for. */
  readonly name: string | null
  readonly queueKey: string
  readonly maxLength?: number | undefined
}

/** A queue, leading to its jobs. */
export function QueueName({ name, queueKey, maxLength }: QueueNameProps) {
  if (name === null) return <span class="mono">key {queueKey}</span>
  return (
    <a href={hrefOfQueue(name)}>
      <Name text={name} maxLength={maxLength} />
    </a>
  )
}
