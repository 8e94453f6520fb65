import { checkName, formatDuration } from '../../base/index.js'
import { type LimitDetails, limitKeys, Observer } from '../../observe/index.js'
import { Operator } from '../../operate/index.js'
import { agree } from '../confirm.js'
import { withDatabase } from '../connect.js'
import { Exit, exitCode, say } from '../failure.js'
import { printDocument } from '../output.js'
import type { Settings } from '../settings.js'
import { tell } from './show.js'

const mostNamed = 10

/** As if nothing of the name were in use or spent. */
export async function limitReset(settings: Settings, name: string): Promise<void> {
  const namespace = settings.name('namespace') ?? 'default'
  const keys = limitKeys(namespace, checkName(name))
  await withDatabase(settings, async (database, schema) => {
    const found = await new Observer(database, schema).limits.find(namespace, name, mostNamed)
    const isUsed = found.holding > 0
    if (isUsed || found.rate) {
      say(consequence(name, found))
      await agree(settings, 'resetting a limit', 'Reset it?')
    }
    const operator = new Operator(database, schema)
    const ended = isUsed ? await operator.resetLimit(keys.permits) : []
    const refilled = found.rate !== undefined && (await operator.refillRate(keys.rate))
    printDocument<'limit-reset'>(settings, { ended, refilled })
    if (ended.length > 0) say(`Took ${permits(ended.length)} of "${name}".`)
    if (refilled) say(`Refilled the rate of "${name}".`)
    if (ended.length > 0 || refilled) return
    say(`Nothing of "${name}" is in use or spent: there is nothing to reset.`)
    throw new Exit(exitCode.conditionNotMet)
  })
}

function consequence(name: string, { holding, waiting, holders, rate }: LimitDetails): string {
  const named = holders.map((holder) => `  ${tell(holder)}`)
  const taking = [
    `This takes ${permits(holding)} of "${name}" from:`,
    ...named,
    ...(holding > named.length ? [`  … and ${holding - named.length} more`] : []),
    `They are free at once${waiting > 0 ? ', and go to whoever waits' : ''}.`,
    'The holders are told by their signals; without an anchor, at the next renewal of their presence. Work that does not',
    'heed the loss may still be running then, beside that of others.',
  ]
  const refilling = rate && [
    `This refills the rate of "${name}", which would have rested in ${formatDuration(rate.restedInMs)}:`,
    'all of it may be spent again at once. Who sleeps until a promised place keeps it.',
  ]
  return [...(holding > 0 ? taking : []), ...(refilling ?? [])].join('\n')
}

function permits(count: number): string {
  return count === 1 ? '1 permit' : `${count} permits`
}
