import { checkName, suggest } from '../../base/index.js'
import { type BusyQueue, Observer } from '../../observe/index.js'
import { withHoldfast } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'

/** Nobody claims jobs of the queue any more. */
export async function queuePause(settings: Settings, name: string): Promise<void> {
  checkName(name, 'queue')
  await withHoldfast(settings, async ({ jobs, namespace }, database, schema) => {
    const { queue, unknown } = await findQueue(new Observer(database, schema), namespace, name)
    await jobs.pause(name)
    printDocument(settings, { paused: name })
    if (queue?.pausedAt) say(`"${name}" was paused already.`)
    else say(`Paused "${name}": none of its jobs is claimed until it is resumed.`)
    if (queue && queue.running > 0) say(`${queue.running} of them run, and go on.`)
    if (unknown) say(unknown)
  })
}

/** Jobs of the queue are claimed again. */
export async function queueResume(settings: Settings, name: string): Promise<void> {
  checkName(name, 'queue')
  await withHoldfast(settings, async ({ jobs, namespace }, database, schema) => {
    const { queue, unknown } = await findQueue(new Observer(database, schema), namespace, name)
    const isPaused = queue !== undefined && queue.pausedAt !== null
    if (isPaused) await jobs.resume(name)
    printDocument(settings, { resumed: isPaused ? name : null })
    if (isPaused) return say(`Resumed "${name}".`)
    say(unknown ?? `"${name}" is not paused.`)
    throw new Exit(exitCode.conditionNotMet)
  })
}

/** A queue; or what to say where nobody has used it, for a name with a slip of the typist looks the same. */
export async function findQueue(
  observer: Observer,
  namespace: string,
  name: string,
): Promise<{ queue?: BusyQueue; unknown?: string }> {
  const [queue] = (await observer.work.queues({ namespace, queue: name })).rows
  if (queue) return { queue }
  const names = (await observer.work.queues({ namespace })).rows.map((known) => known.name ?? '')
  const meant = suggest(name, names)
  return { unknown: `Nobody has used a queue "${name}" yet.${meant ? ` Did you mean "${meant}"?` : ''}` }
}
