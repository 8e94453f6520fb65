import { checkName, formatDuration } from '../../base/index.js'
import { type DeliveryDetails, Observer } from '../../observe/index.js'
import { Operator } from '../../operate/index.js'
import { agree } from '../confirm.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { whoRuns } from './ls.js'
import { unknown } from './show.js'

/** The next delivery with the key is run again. */
export async function deliveryForget(settings: Settings, key: string): Promise<void> {
  const namespace = settings.name('namespace') ?? 'default'
  checkName(key, 'key')
  await withDatabase(settings, async (database, schema) => {
    const delivery = await new Observer(database, schema).deliveries.find(namespace, key)
    const isFree = delivery !== undefined && delivery.state !== 'in-flight'
    if (isFree) {
      say(consequence(delivery))
      await agree(settings, 'forgetting a delivery', 'Forget it?')
    }
    const forgotten = isFree && (await new Operator(database, schema).forgetDelivery(namespace, key))
    printDocument<'delivery-forget'>(settings, { forgotten: forgotten ? key : null })
    if (forgotten) return say(`Forgot "${key}": the next delivery with this key is run.`)
    say(refusal(key, delivery))
    throw new Exit(exitCode.conditionNotMet)
  })
}

function consequence({ key, state, forMs }: DeliveryDetails): string {
  const what = {
    done: `was done ${formatDuration(forMs)} ago`,
    failed: `failed ${formatDuration(forMs)} ago, and its failure is its answer`,
  }[state as string]
  if (!what)
    return `"${key}" was left by an instance that is gone. The next delivery with this key runs it again anyway.`
  return [
    `"${key}" ${what}. When it is forgotten, the next delivery with this key is run again,`,
    'with all its effects. Duplicates get the new answer from then on.',
  ].join('\n')
}

function refusal(key: string, delivery: DeliveryDetails | undefined): string {
  if (!delivery) return unknown(key)
  if (delivery.state !== 'in-flight') return `"${key}" was not forgotten: somebody has begun to run it again.`
  return [
    `"${key}" is being run by ${whoRuns(delivery)} (instance ${delivery.instance}), for ${formatDuration(delivery.forMs)}.`,
    'Forgotten now, it could run a second time beside that. Wait for its end, or end that process: then it is free at once.',
  ].join('\n')
}
