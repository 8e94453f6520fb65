import { didYouMean, formatDuration } from '../base/index.js'
import { instanceLabel, limitKeys, type ObservedPermit, type Observer } from '../observe/index.js'
import { act, formatCount, inapplicable, joinSentences } from './act.js'

const maxListed = 10
const maxCandidates = 1_000

export const limits = {
  'reset-limit': act({
    needs: { namespace: 'text', name: 'text' },
    consent: { doing: 'resetting a limit', question: 'Reset this limit?' },
    async preview({ observer }, { namespace, name }) {
      const subject = `limit ${name}`
      const { holding, waiting, holders, rate } = await observer.limits.find(namespace, name, maxListed)
      if (holding === 0 && !rate) return inapplicable(subject, await unused(observer, namespace, name))
      const text = joinSentences(
        holding > 0 &&
          `Revokes ${formatCount(holding, 'permit')} for "${name}". The permits become free immediately${waiting > 0 ? ', and the next waiters receive them' : ''}. Holders are notified immediately, or at their next renewal if they have no anchor. Work that ignores the loss may run at the same time as the next holders' work.`,
        rate &&
          `Resets the rate limit of "${name}" immediately. Without this action, the full burst would be available again in ${formatDuration(rate.refilledInMs)}. A caller that has already reserved a start time still waits for that time.`,
      )
      const more = holding - holders.length
      const facts = [...holders.map(permitFact), ...(more > 0 ? [['And', `${more} more`] as const] : [])]
      return { subject, text, applies: true, dangerous: holding > 0, facts }
    },
    async run({ observer, operator }, { namespace, name }) {
      const keys = limitKeys(namespace, name)
      const { holding, rate } = await observer.limits.find(namespace, name, 1)
      const ended = holding > 0 ? await operator.resetLimit(keys.permits) : []
      const refilled = rate !== undefined && (await operator.refillRate(keys.rate))
      const text = joinSentences(
        ended.length > 0 && `Revoked ${formatCount(ended.length, 'permit')} for "${name}".`,
        refilled && `Reset the rate limit of "${name}".`,
      )
      return { done: text !== '', text: text || (await unused(observer, namespace, name)), result: { ended, refilled } }
    },
  }),
}

/** Reports that a limit is unused. Suggests a similar name, because the name may be mistyped. */
async function unused(observer: Observer, namespace: string, name: string): Promise<string> {
  const used = await observer.limits.list({ namespace, limit: maxCandidates })
  return joinSentences(
    `No permit for "${name}" is held, and its rate limit is unused: there is nothing to reset.`,
    didYouMean(
      name,
      used.map((limit) => limit.name),
    ),
  )
}

/** Returns the participant that holds a permit, and the permit's details. */
export function permitFact(permit: ObservedPermit): readonly [participant: string, details: string] {
  const { instance, instanceName, weight, max, fence, forMs } = permit
  const grant = fence === null ? '' : `, fence ${fence}`
  const id = instanceName === null ? '' : `instance ${instance}, `
  const details = `${id}for ${formatDuration(forMs)}, weight ${weight} of ${max}${grant}`
  return [instanceLabel(permit), details]
}
