import { maxRows, offset, view } from '../view.js'

const maxTimelines = 20
const maxTerms = 40

/** Views of locks and leases. */
export const names = {
  names: view({
    intervalMs: 1_000,
    params: { namespace: 'text', search: 'text', after: offset },
    async read({ observer }, { namespace, search, after = 0 }) {
      const found = await observer.names({ namespace, search, limit: maxRows, offset: after })
      const isFull = Math.max(found.locks.length, found.leases.length) === maxRows
      return { ...found, next: isFull ? String(after + maxRows) : null }
    },
  }),

  /** One name with its holders and its waiters. */
  name: view({
    intervalMs: 1_000,
    needs: { key: 'key' },
    async read({ observer }, { key }) {
      const locks = await observer.locks({ key })
      const [lease] = await observer.leases({ key })
      const holders = locks.filter(({ granted }) => granted)
      const waiters = locks.filter(({ granted }) => !granted)
      const named = [...locks, ...(lease ? [lease] : [])].find(({ label }) => label !== null)
      // Even a name without holders and waiters can have a label.
      const { label = null, namespace = null } = named ?? (await observer.nameOf(key)) ?? {}
      return {
        key,
        label,
        namespace,
        lease: lease ?? null,
        holders: holders.slice(0, maxRows),
        holding: holders.length,
        waiters: waiters.slice(0, maxRows),
        waiting: waiters.reduce((sum, { requests }) => sum + requests, 0),
      }
    },
  }),

  /** Fraction of each recorded minute during which a name was held, and during which calls waited for it. */
  'hold-timeline': view({
    intervalMs: 15_000,
    params: { namespace: 'text', search: 'text', hours: { number: [1, 48] } },
    read: ({ observer }, { namespace, search, hours }) =>
      observer.holdTimeline({ namespace, search, hours, limit: maxTimelines }),
  }),

  /** A name's previous holders, and the reason why each hold ended, latest first. */
  terms: view({
    intervalMs: 5_000,
    needs: { key: 'key' },
    read: ({ observer }, { key }) => observer.termsOf(key, { limit: maxTerms }),
  }),
}
