import type { ObservedLock, Observer } from '../../observe/index.js'
import { act } from '../act.js'

/** What may be done to who has a name. */
export const names = {
  'release-name': act({
    needs: { key: 'key' },
    async preview({ observer }, { key }) {
      const { label, ours, others } = await holdersOf(observer, key)
      const asked = ours.map((holder) => `${holder.host} process ${holder.osPid}`)
      const says =
        ours.length === 0
          ? others > 0
            ? 'Nobody can be asked: who holds it does not use Holdfast.'
            : 'Nobody holds it: there is nobody to ask.'
          : `Asks ${asked.join(' and ')} to let go. They decide themselves when their work can stop, and nothing is lost.`
      return { subject: `lock ${label}`, says, grave: false }
    },
    async run({ observer, operator }, { key }) {
      const { label, ours } = await holdersOf(observer, key)
      if (ours.length === 0) return { done: false, says: `There is nobody to ask to release "${label}".` }
      await operator.requestRelease(key)
      return {
        done: true,
        says: `Asked ${ours.length === 1 ? 'its holder' : `${ours.length} holders`} to release "${label}".`,
      }
    },
  }),
}

async function holdersOf(
  observer: Observer,
  key: string,
): Promise<{ label: string; ours: ObservedLock[]; others: number }> {
  const locks = await observer.locks({ key })
  const holders = locks.filter(({ granted }) => granted)
  const ours = holders.filter(({ instance }) => instance !== null)
  return { label: locks[0]?.label ?? `key ${key}`, ours, others: holders.length - ours.length }
}
