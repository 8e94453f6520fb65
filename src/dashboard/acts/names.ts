import { formatDuration } from '../../base/index.js'
import { called, type ObservedLock, type Observer, whoIs } from '../../observe/index.js'
import { act } from '../act.js'

/** What may be done to who has a name: to ask, to expire, to break. */
export const names = {
  'release-name': act({
    needs: { key: 'key' },
    async preview({ observer }, { key }) {
      const { name, ours, holders } = await holdersOf(observer, key)
      const says =
        ours.length > 0
          ? `Asks ${ours.map((holder) => whoIs(holder)).join(' and ')} to let go. They decide themselves when their work can stop, and nothing is lost.`
          : holders.length > 0
            ? 'Nobody can be asked: who holds it does not use Holdfast.'
            : 'Nobody holds it: there is nobody to ask.'
      return { subject: `lock ${name}`, says, grave: false }
    },
    async run({ observer, operator }, { key }) {
      const { name, ours } = await holdersOf(observer, key)
      if (ours.length === 0) return { done: false, says: `There is nobody to ask to release "${name}".` }
      await operator.requestRelease(key)
      return {
        done: true,
        says: `Asked ${ours.length === 1 ? 'its holder' : `${ours.length} holders`} to release "${name}".`,
      }
    },
  }),

  'expire-lease': act({
    needs: { key: 'key' },
    async preview({ observer }, { key }) {
      const [lease] = await observer.leases({ key })
      if (!lease) {
        return { subject: `lease ${key}`, says: 'Nobody has it by lease: there is nothing to expire.', grave: false }
      }
      const subject = `lease ${called(lease)}`
      if (!lease.held) {
        const left = formatDuration(lease.expiresInMs)
        return {
          subject,
          says: `Ends the hold, which keeps the name taken for ${left} more. It is free at once, and the work that the hold kept from running again may run again.`,
          grave: true,
        }
      }
      const holder = whoIs({ ...lease, application: null, user: null })
      return {
        subject,
        says: `Takes it from ${holder}. It is free at once, and goes to whoever asks next. The holder is told; guarded writes under its fence ${lease.fence} are refused from now on. Work that does not heed the loss may still be running then.`,
        grave: true,
      }
    },
    async run({ observer, operator }, { key }) {
      const [lease] = await observer.leases({ key })
      const done = lease !== undefined && (await operator.expireLease(key))
      const name = lease ? `"${called(lease)}"` : 'It'
      return { done, says: done ? `Expired the lease on ${name}.` : `${name} is not leased any more.` }
    },
  }),

  'break-lock': act({
    needs: { key: 'key' },
    async preview({ observer }, { key }) {
      const { name, holders } = await holdersOf(observer, key)
      if (holders.length === 0) {
        return { subject: `lock ${name}`, says: 'Nobody holds it: there is nothing to break.', grave: false }
      }
      const all = (await observer.locks()).filter(({ granted }) => granted)
      const sessions = holders.length === 1 ? `session ${holders[0]!.pid}` : `${holders.length} sessions`
      const isInstance = holders.some(({ instance }) => instance !== null)
      return {
        subject: `lock ${name}`,
        says: `Ends ${sessions}. All that is held by it is lost at once, and goes to whoever waits.${isInstance ? ' An instance comes back in a new life; jobs and runs that it had go on elsewhere.' : ''} Work that does not heed the loss may still be running then. The mild way is to ask the holder.`,
        grave: true,
        facts: holders.map((holder) => [whoIs(holder), besides(holder, all)] as const),
      }
    },
    async run({ observer, operator }, { key }) {
      const { name, holders } = await holdersOf(observer, key)
      const ended: number[] = []
      for (const { pid } of holders) if (await operator.endSession(pid!, key)) ended.push(pid!)
      if (ended.length === 0) return { done: false, says: `"${name}" is free: there is nothing to break.` }
      return { done: true, says: `Ended ${ended.length === 1 ? 'session' : 'sessions'} ${ended.join(', ')}.` }
    },
  }),
}

/** Who holds it as a lock, and which of them are instances. */
async function holdersOf(observer: Observer, key: string) {
  const locks = await observer.locks({ key })
  const holders = locks.filter(({ granted }) => granted)
  return {
    name: locks[0] ? called(locks[0]) : `key ${key}`,
    holders,
    ours: holders.filter(({ instance }) => instance !== null),
  }
}

const mostNamed = 5

/** What else the same session holds. */
function besides(holder: ObservedLock, all: readonly ObservedLock[]): string {
  const others = all.filter(({ pid, key }) => pid === holder.pid && key !== holder.key)
  if (others.length === 0) return `session ${holder.pid}, which holds nothing else`
  const named = others.slice(0, mostNamed).map(called).join(', ')
  const more = others.length > mostNamed ? ` and ${others.length - mostNamed} more` : ''
  return `session ${holder.pid}, which also holds ${named}${more}`
}
