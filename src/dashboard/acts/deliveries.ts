import { formatDuration } from '../../base/index.js'
import type { DeliveryDetails } from '../../observe/index.js'
import { act } from '../act.js'
import type { Consequence } from '../consequence.js'

/** What may be done on the page of deliveries. */
export const deliveries = {
  'forget-delivery': act({
    needs: { namespace: 'text', key: 'text' },
    async preview({ observer }, { namespace, key }) {
      const delivery = await observer.deliveries.find(namespace, key)
      return { subject: `delivery ${key}`, ...consequenceOf(key, delivery) }
    },
    async run({ observer, operator }, { namespace, key }) {
      if (await operator.forgetDelivery(namespace, key)) {
        return { done: true, says: `Forgot "${key}": the next arrival of this key has its effect again.` }
      }
      const delivery = await observer.deliveries.find(namespace, key)
      return { done: false, says: delivery ? inFlight(delivery) : unknown(key) }
    },
  }),
}

function consequenceOf(
  key: string,
  delivery: DeliveryDetails | undefined,
): Pick<Consequence, 'says' | 'grave' | 'facts'> {
  if (!delivery) return { says: unknown(key), grave: false }
  if (delivery.state === 'in-flight') return { says: inFlight(delivery), grave: false }
  const facts = [
    ['State', delivery.state],
    [delivery.finishedAt ? 'Finished' : 'Started', `${formatDuration(delivery.forMs)} ago`],
    ['By', whoRan(delivery)],
  ] as const
  if (delivery.state === 'lost') {
    return {
      says: 'The instance that ran it is gone, so the next arrival of this key runs it again anyway.',
      grave: false,
      facts,
    }
  }
  const answer =
    delivery.state === 'done' ? 'Its answer is forgotten' : 'Its failure, which is its answer, is forgotten'
  return {
    says: `${answer}: the next arrival of this key has its effect again, and duplicates get the new answer from then on.`,
    grave: true,
    facts,
  }
}

function inFlight(delivery: DeliveryDetails): string {
  return `"${delivery.key}" is being run by ${whoRan(delivery)}, for ${formatDuration(delivery.forMs)}. It is not forgotten meanwhile: it could run a second time beside that.`
}

function unknown(key: string): string {
  return `There is no delivery "${key}": it was never seen, its answer has expired, or somebody forgot it.`
}

function whoRan({ host, osPid, instance }: DeliveryDetails): string {
  return host === null ? `instance ${instance}` : `${host} process ${osPid}`
}
