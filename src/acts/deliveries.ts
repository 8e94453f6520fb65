import { formatDuration } from '../base/index.js'
import { type DeliveryDetails, participantLabel } from '../observe/index.js'
import { act, inapplicable } from './act.js'

export const deliveries = {
  'forget-delivery': act({
    needs: { namespace: 'text', key: 'text' },
    consent: { doing: 'forgetting a delivery', question: 'Forget this delivery?' },
    async preview({ observer }, { namespace, key }) {
      const subject = `delivery ${key}`
      const delivery = await observer.deliveries.find(namespace, key)
      if (!delivery || delivery.state === 'in-flight') return inapplicable(subject, refusal(key, delivery))
      const { state, finishedAt, forMs } = delivery
      const facts = [
        ['State', state],
        [finishedAt ? 'Finished' : 'Started', `${formatDuration(forMs)} ago`],
        ['By', participantLabel(delivery)],
      ] as const
      if (state === 'lost') {
        const text =
          'The instance that was running this delivery was lost. The next delivery with this key will run even without this action.'
        return { subject, text, applies: true, dangerous: false, facts }
      }
      const what =
        state === 'done'
          ? 'Deletes the recorded result.'
          : 'Deletes the recorded failure, which duplicate deliveries receive as their result.'
      const text = `${what} The next delivery with this key runs again, with all its effects. Later duplicates receive the new result.`
      return { subject, text, applies: true, dangerous: true, facts }
    },
    async run({ observer, operator }, { namespace, key }) {
      const done = await operator.forgetDelivery(namespace, key)
      const result = { forgotten: done ? key : null }
      if (done) return { done, text: `Forgot "${key}". The next delivery with this key will run.`, result }
      return { done, text: refusal(key, await observer.deliveries.find(namespace, key)), result }
    },
  }),
}

function refusal(key: string, delivery: DeliveryDetails | null): string {
  if (!delivery) return noSuchDelivery(key)
  const { forMs } = delivery
  return `"${key}" has been running for ${formatDuration(forMs)} on ${participantLabel(delivery)}. If you forget the delivery now, it may run twice at the same time. Wait until it has finished, or stop that process.`
}

export function noSuchDelivery(key: string): string {
  return `There is no delivery "${key}": it never arrived, or its result has expired.`
}
