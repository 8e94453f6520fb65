import { permitFact } from '../../acts/index.js'
import { checkName, formatDuration } from '../../base/index.js'
import { limitKeys, type Observer } from '../../observe/index.js'
import { observe } from '../connect.js'
import type { LimitShow } from '../documents.js'
import { type Fact, printDocument, printFacts } from '../output.js'
import type { Settings } from '../settings.js'

export async function limitShow(settings: Settings, name: string): Promise<void> {
  const { namespace } = settings
  const maxListed = settings.wholeNumber('limit', 1, 10_000) ?? 100
  checkName(name)
  const document = await observe(settings, (observer) => limitDocument(observer, namespace, name, maxListed))
  if (printDocument<'limit-show'>(settings, document)) return
  const { permits, rate } = document
  const { inUse, max, holding, waiting, holders, waiters } = permits
  printFacts(settings, [
    ['name', name],
    ['namespace', namespace],
    ['in use', max === null ? 'nothing' : `${inUse} of ${max}`],
    ...holders.map((holder) => ['held by', permitFact(holder).join(', ')] as const),
    ...moreFact('held by', holding - holders.length),
    ...waiters.map((waiter) => ['waits', permitFact(waiter).join(', ')] as const),
    ...moreFact('waits', waiting - waiters.length),
    [
      'rate',
      rate
        ? `full burst available again in ${formatDuration(rate.refilledInMs)} if nothing more is spent`
        : 'nothing is spent',
    ],
  ])
}

/** Reads a name's permits and its rate. */
export async function limitDocument(
  { limits }: Observer,
  namespace: string,
  name: string,
  maxListed: number,
): Promise<LimitShow> {
  const keys = limitKeys(namespace, name)
  const { rate, ...permits } = await limits.find(namespace, name, maxListed)
  return {
    name,
    namespace,
    permits: { key: keys.permits, ...permits },
    rate: rate === undefined ? null : { key: keys.rate, ...rate },
  }
}

function moreFact(field: string, count: number): Fact[] {
  return count > 0 ? [[field, `… and ${count} more (use --limit to show more)`]] : []
}
