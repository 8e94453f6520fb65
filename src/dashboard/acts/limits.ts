import { formatDuration } from '../../base/index.js'
import { limitKeys, type ObservedPermit } from '../../observe/index.js'
import { act } from '../act.js'

const mostNamed = 10

/** What may be done on the page of limits. */
export const limits = {
  'reset-limit': act({
    needs: { namespace: 'text', name: 'text' },
    async preview({ observer }, { namespace, name }) {
      const { holding, waiting, holders, rate } = await observer.limits.find(namespace, name, mostNamed)
      const isUsed = holding > 0
      const says = [
        isUsed &&
          `Takes ${permits(holding)} of "${name}". They are free at once${waiting > 0 ? ', and go to whoever waits' : ''}. The holders are told; work that does not heed the loss may still be running then, beside that of others.`,
        rate &&
          `Refills the rate of "${name}", which would have rested in ${formatDuration(rate.restedInMs)}: all of it may be spent again at once.`,
        !isUsed && !rate && `Nothing of "${name}" is in use or spent: there is nothing to reset.`,
      ]
      return {
        subject: `limit ${name}`,
        says: says.filter((sentence) => typeof sentence === 'string').join(' '),
        grave: isUsed,
        facts: holders.map((holder) => [whose(holder), lasting(holder)] as const),
      }
    },
    async run({ observer, operator }, { namespace, name }) {
      const keys = limitKeys(namespace, name)
      const { holding, rate } = await observer.limits.find(namespace, name, 1)
      const taken = holding > 0 ? await operator.resetLimit(keys.permits) : []
      const refilled = rate !== undefined && (await operator.refillRate(keys.rate))
      const says = [taken.length > 0 && `Took ${permits(taken.length)} of "${name}".`, refilled && `Refilled its rate.`]
      const done = taken.length > 0 || refilled
      return {
        done,
        says: done ? says.filter(Boolean).join(' ') : `Nothing of "${name}" was in use or spent any more.`,
      }
    },
  }),
}

function whose({ host, osPid, instance }: ObservedPermit): string {
  return host === null ? `instance ${instance}` : `${host} process ${osPid}`
}

function lasting({ weight, forMs }: ObservedPermit): string {
  return `${permits(weight)} for ${formatDuration(forMs)}`
}

function permits(count: number): string {
  return count === 1 ? '1 permit' : `${count} permits`
}
