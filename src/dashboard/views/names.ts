import { view } from '../view.js'

const mostRows = 200

/** Locks and leases: who has which name, who waits for it, and how it was in the last days. */
export const names = {
  names: view({
    everyMs: 1_000,
    params: { namespace: 'text', search: 'text' },
    read: ({ observer }, { namespace, search }) => observer.names({ namespace, search, limit: mostRows }),
  }),

  /** One name: everybody who holds it, and waits for it. */
  name: view({
    everyMs: 1_000,
    needs: { key: 'key' },
    async read({ observer }, { key }) {
      const locks = await observer.locks({ key })
      const [lease] = await observer.leases({ key })
      const holders = locks.filter(({ granted }) => granted)
      const waiters = locks.filter(({ granted }) => !granted)
      const named = [...locks, ...(lease ? [lease] : [])].find(({ label }) => label !== null)
      return {
        key,
        label: named?.label ?? null,
        namespace: named?.namespace ?? null,
        lease: lease ?? null,
        holders: holders.slice(0, mostRows),
        holding: holders.length,
        waiters: waiters.slice(0, mostRows),
        waiting: waiters.reduce((sum, { requests }) => sum + requests, 0),
      }
    },
  }),
}
