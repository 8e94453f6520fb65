import { UsageError } from '../../base/index.js'
import type { FleetInstance, Observer } from '../../observe/index.js'

/** Returns the instance with the ID or name that the user typed. Throws if several instances match. */
export async function findInstance(
  observer: Observer,
  word: string,
  namespace: string | undefined,
): Promise<FleetInstance | undefined> {
  const found = await observer.fleet.named(word, namespace)
  if (found.length <= 1) return found[0]
  const candidates = found.map(({ id, name, namespace }) => `${id} (${name} in namespace ${namespace})`)
  throw new UsageError(
    `${found.length} instances match ${JSON.stringify(word)}: ${candidates.join(', ')}`,
    'Pass the ID of the instance, or select a namespace with --namespace.',
  )
}
