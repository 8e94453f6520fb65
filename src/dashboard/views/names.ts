import { view } from '../view.js'

const mostRows = 200

/** Locks and leases: who has which name. */
export const names = {
  locks: view({
    everyMs: 1_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      const rows = await observer.locks({ namespace })
      return { rows: rows.slice(0, mostRows), count: rows.length }
    },
  }),

  leases: view({
    everyMs: 1_000,
    params: { namespace: 'text' },
    async read({ observer }, { namespace }) {
      const rows = await observer.leases({ namespace })
      return { rows: rows.slice(0, mostRows), count: rows.length }
    },
  }),
}
