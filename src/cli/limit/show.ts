import { checkName, formatDuration } from '../../base/index.js'
import { limitKeys, type ObservedPermit, Observer, whoIs } from '../../observe/index.js'
import { withDatabase } from '../connect.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function limitShow(settings: Settings, name: string): Promise<void> {
  const namespace = settings.name('namespace') ?? 'default'
  const most = settings.wholeNumber('limit', 1, 10_000) ?? 100
  const keys = limitKeys(namespace, checkName(name))
  const { rate, ...permits } = await withDatabase(settings, (database, schema) =>
    new Observer(database, schema).limits.find(namespace, name, most),
  )
  const answer = {
    name,
    namespace,
    permits: { key: keys.permits, ...permits },
    rate: rate === undefined ? null : { key: keys.rate, ...rate },
  }
  if (printDocument<'limit-show'>(settings, answer)) return
  const { inUse, max, holding, waiting, holders, waiters } = permits
  printFacts(settings, [
    ['name', name],
    ['namespace', namespace],
    ['in use', max === null ? 'nothing' : `${inUse} of ${max}`],
    ...holders.map((holder) => ['held by', tell(holder)] as const),
    ...theRest('held by', holding - holders.length),
    ...waiters.map((waiter) => ['waits', tell(waiter)] as const),
    ...theRest('waits', waiting - waiters.length),
    ['rate', rate ? `has rested in ${formatDuration(rate.restedInMs)}, if nothing more is spent` : 'nothing is spent'],
  ])
}

/** Also for who is asked whether it may be taken. */
export function tell(permit: ObservedPermit): string {
  const { instance, weight, max, fence, forMs } = permit
  const who = `${whoIs(permit)}, instance ${instance}`
  const grant = fence === null ? '' : `, fence ${fence}`
  return `${who}, for ${formatDuration(forMs)}, weight ${weight} of ${max}${grant}`
}

function theRest(field: string, count: number): Fact[] {
  return count > 0 ? [[field, `… and ${count} more: --limit shows more`]] : []
}
